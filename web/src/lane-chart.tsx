/** A lane that shows numbers over the time of a step: areas, one upon the other. */
export const BUCKETS = 240;
const HEIGHT = 60;

/** Drawn in units of buckets and of `HEIGHT`, stretched over the lane. */
export function LaneChart({
  label,
  children,
}: {
  readonly label: string;
  readonly children: React.ReactNode;
}) {
  return (
    <svg
      className="lane-track"
      viewBox={`0 0 ${BUCKETS} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {children}
    </svg>
  );
}

/** How many spans are open in each bucket of the time, on the average. */
export function countsOver(
  spans: readonly { readonly start: number; readonly end: number }[],
  from: number,
  to: number,
): Float64Array {
  const counts = new Float64Array(BUCKETS);
  const width = Math.max(1e-9, (to - from) / BUCKETS);
  for (const { start, end } of spans) {
    const last = Math.min(BUCKETS - 1, Math.floor((end - from) / width));
    for (let at = Math.max(0, Math.floor((start - from) / width)); at <= last; at++) {
      const [left, right] = [from + at * width, from + (at + 1) * width];
      counts[at]! += Math.max(0, Math.min(end, right) - Math.max(start, left)) / width;
    }
  }
  return counts;
}

/** An outline for each row of counts, the first at the bottom, and the most they come to together. */
export function stackedAreas(rows: readonly Float64Array[]): { areas: string[]; most: number } {
  const totals = Array.from({ length: BUCKETS }, (_, at) => rows.reduce((sum, row) => sum + row[at]!, 0));
  const most = Math.max(1, ...totals);
  const base = new Float64Array(BUCKETS);
  const areas = rows.map((row) => {
    const lower = Array.from(base, (value, at) => place(at, value / most)).reverse();
    const upper = Array.from(base, (value, at) => {
      base[at] = value + row[at]!;
      return place(at, base[at]! / most);
    });
    return `M${upper.join('L')}L${lower.join('L')}Z`;
  });
  return { areas, most: Math.round(most) };
}

/** A line through shares of the height; gaps where nothing is known. */
export function shareLine(shares: readonly (number | null)[]): string {
  let isOpen = false;
  return shares
    .map((share, at) => {
      const step = share === null ? '' : `${isOpen ? 'L' : 'M'}${place(at, share)}`;
      isOpen = share !== null || isOpen;
      return step;
    })
    .join('');
}

const place = (bucket: number, share: number) =>
  `${bucket + 0.5},${(HEIGHT - (HEIGHT - 2) * share).toFixed(2)}`;
