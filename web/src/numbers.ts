/** A number for people: three digits that matter, none of a whole number left out. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  if (Number.isInteger(value)) return size < 1e6 ? String(value) : value.toExponential(1);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1);
  return size >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

/** A share of 1 as per cent. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  return `${Number((100 * value).toPrecision(3))} %`;
}

/** Milliseconds in the unit that suits them. */
export function milliseconds(value: number): string {
  if (value < 1) return 'under 1 ms';
  return value < 1000 ? `${Math.round(value)} ms` : `${short(value / 1000)} s`;
}

export function duration(seconds: number | null): string {
  if (seconds === null) return '–';
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** TensorBoard's smoothing: an exponential mean, corrected for its start; gaps are passed over. */
export function smooth(values: readonly (number | null)[], weight: number): (number | null)[] {
  let mean = 0;
  let count = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + (1 - weight) * value;
    count++;
    return mean / (1 - weight ** count);
  });
}
