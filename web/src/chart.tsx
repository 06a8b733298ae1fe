import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import { short, smooth } from './numbers.ts';
import { cssColour, useTheme } from './theme.ts';

export interface Line {
  readonly label: string;
  readonly colour: string;
  readonly dash?: readonly number[];
  readonly steps: readonly number[];
  readonly values: readonly (number | null)[];
}

interface ChartProps {
  readonly title: string;
  readonly lines: readonly Line[];
  readonly smoothing: number;
  /** Step that is marked. */
  readonly at: number | undefined;
  readonly onPick: (step: number) => void;
}

const HEIGHT = 170;
const sync = uPlot.sync('steps');

/** Curves over steps. All charts share one cursor; a click picks the step. */
export function Chart({ title, lines, smoothing, at, onPick }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const marked = useRef(at);
  const pick = useRef(onPick);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  pick.current = onPick;

  useEffect(() => {
    marked.current = at;
    plot.current?.redraw(false);
  }, [at]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours on the canvas follow the theme
  useEffect(() => {
    const element = place.current!;
    const steps = [...new Set(lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
    const where = new Map(steps.map((step, index) => [step, index]));
    const spread = (line: Line, values: readonly (number | null)[]) => {
      const column = new Array<number | null>(steps.length).fill(null);
      for (const [index, step] of line.steps.entries()) column[where.get(step)!] = values[index] ?? null;
      return column;
    };
    const isSmoothed = smoothing > 0;
    const data = [
      steps,
      ...lines.map((line) => spread(line, isSmoothed ? smooth(line.values, smoothing) : line.values)),
      ...(isSmoothed ? lines.map((line) => spread(line, line.values)) : []),
    ] as uPlot.AlignedData;
    const axis = {
      stroke: cssColour('quiet'),
      grid: { stroke: cssColour('line'), width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
    };
    const series = (line: Line, faint: boolean): uPlot.Series => ({
      label: line.label,
      stroke: faint ? `${line.colour}44` : line.colour,
      width: faint ? 1 : 1.8,
      spanGaps: true,
      points: { show: line.values.filter((value) => value !== null).length < 60 && !faint, size: 4 },
      ...(line.dash && { dash: [...line.dash] }),
    });
    const chart = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        scales: { x: { time: false }, y: { range: (_, least, most) => rangeOf(least, most) } },
        cursor: { sync: { key: sync.key }, points: { size: 6 }, drag: { x: true, y: false } },
        axes: [
          { ...axis, size: 24 },
          { ...axis, size: 48, values: (_, ticks) => ticks.map((tick) => short(tick)) },
        ],
        series: [
          {},
          ...lines.map((line) => series(line, false)),
          ...(isSmoothed ? lines.map((line) => series(line, true)) : []),
        ],
        hooks: {
          setCursor: [
            ({ cursor: { idx } }) => {
              const readout = element.parentElement?.querySelector('.readout');
              if (!readout) return;
              const values = lines.map((_, index) => (idx == null ? null : (data[index + 1]?.[idx] ?? null)));
              const isShown = values.some((value) => value !== null);
              readout.textContent = isShown ? `step ${steps[idx!]}: ${values.map(short).join(', ')}` : '';
            },
          ],
          draw: [
            ({ ctx, bbox, valToPos }) => {
              if (marked.current === undefined) return;
              const x = valToPos(marked.current, 'x', true);
              if (x < bbox.left || x > bbox.left + bbox.width) return;
              ctx.save();
              ctx.strokeStyle = cssColour('accent');
              ctx.setLineDash([4, 3]);
              ctx.beginPath();
              ctx.moveTo(x, bbox.top);
              ctx.lineTo(x, bbox.top + bbox.height);
              ctx.stroke();
              ctx.restore();
            },
          ],
        },
      },
      data,
      element,
    );
    plot.current = chart;
    const clicked = () => {
      const step = steps[chart.cursor.idx ?? -1];
      if (step !== undefined) pick.current(step);
    };
    chart.over.addEventListener('click', clicked);
    const resized = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [lines, smoothing, theme]);

  return <div ref={place} className="plot" role="img" aria-label={describe(title, lines)} />;
}

/** A line that stays the same lies at the bottom or in the middle, not at the edge of a scale that means nothing. */
function rangeOf(least: number, most: number): uPlot.Range.MinMax {
  if (!Number.isFinite(least)) return [0, 1]; // nothing is known
  if (least === most)
    return least === 0 ? [0, 1] : [least - Math.abs(least) / 2, least + Math.abs(least) / 2];
  return uPlot.rangeNum(least, most, 0.1, true);
}

/** A description for people who cannot see the curve. */
function describe(title: string, lines: readonly Line[]): string {
  const parts = lines.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    return known.length === 0 ? label : `${label} from ${short(known[0])} to ${short(known.at(-1))}`;
  });
  return `${title}: ${parts.join('; ')}`;
}
