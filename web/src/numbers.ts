/** A number for people: four digits that matter. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  if (value === 0 || Number.isInteger(value))
    return Math.abs(value) < 1e6 ? String(value) : value.toExponential(2);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
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
