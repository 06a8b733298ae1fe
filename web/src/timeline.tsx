import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef } from 'react';
import type { TimelineLane, TimelineView } from '../../src/watch/dashboard/api.ts';
import type { ViewProps } from './app.tsx';
import { api, useApi } from './data.ts';
import { short } from './numbers.ts';
import { change, href, useRoute } from './route.ts';
import { Notice, StepPicker, useSteps } from './step-picker.tsx';

const KINDS = ['generate', 'tool', 'interaction', 'reward', 'wait'] as const;
const LABELS: Readonly<Record<string, string>> = { generate: 'generating', wait: 'waiting' };
const ORDERS: Readonly<Record<string, { label: string; of: (lane: TimelineLane) => number }>> = {
  task: { label: 'task', of: (lane) => lane.position },
  longest: { label: 'longest first', of: (lane) => -(endOf(lane) - startOf(lane)) },
  last: { label: 'last to finish first', of: (lane) => -endOf(lane) },
};
const BUCKETS = 240;

/** Where the time of a step went: a lane per trajectory, above it how many did what at once, and each server. */
export function Timeline({ run }: ViewProps) {
  const route = useRoute();
  const { steps, step } = useSteps(run.id, route.number('step'));
  const { data, error } = useApi<TimelineView>(step === undefined ? undefined : api.timeline(run.id, step));
  const order = ORDERS[route.get('order') ?? ''] ?? ORDERS['task']!;
  const zoom = route.number('zoom') ?? 1;
  const lanes = useMemo(
    () => [...(data?.lanes ?? [])].sort((a, b) => order.of(a) - order.of(b)),
    [data, order],
  );
  const [from, to] = useMemo(() => extent(lanes), [lanes]);
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: lanes.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 18,
    overscan: 20,
  });
  if (step === undefined) return <p className="quiet">No step has finished yet.</p>;
  const percent = (time: number) => ((time - from) / Math.max(1e-9, to - from)) * 100;
  const servers = [
    ...new Set(lanes.flatMap(({ spans }) => spans.flatMap(({ server }) => server ?? []))),
  ].sort();
  return (
    <>
      <div className="bar">
        <StepPicker steps={steps} step={step} />
        <label className="inline">
          Order
          <select
            value={route.get('order') ?? 'task'}
            onChange={(event) => change({ order: event.target.value })}
          >
            {Object.entries(ORDERS).map(([name, { label }]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label className="inline">
          Zoom
          <input
            type="range"
            min="1"
            max="20"
            value={zoom}
            onChange={(event) => change({ zoom: event.target.value })}
          />
        </label>
        <ul className="legend">
          {KINDS.map((kind) => (
            <li key={kind}>
              <i className={`box span-${kind}`} aria-hidden="true" /> {LABELS[kind] ?? kind}
            </li>
          ))}
          <li>
            <i className="box span-problem" aria-hidden="true" /> a problem
          </li>
        </ul>
      </div>
      {!data && <Notice error={error} what="the timeline" />}
      {data && lanes.length > 0 && (
        <div ref={scroller} className="timeline">
          <div style={{ width: `${zoom * 100}%` }}>
            <div className="lane head">
              <span className="lane-name">{short((to - from) / 1000)} s</span>
              <span className="lane-track ticks" aria-hidden="true">
                {[0, 0.25, 0.5, 0.75, 1].map((share) => (
                  <span key={share} style={{ left: `${share * 100}%` }}>
                    {short(((to - from) * share) / 1000)} s
                  </span>
                ))}
              </span>
            </div>
            <AtOnce name="all trajectories" lanes={lanes} from={from} to={to} />
            {servers.map((server) => (
              <AtOnce
                key={server}
                name={server.replace(/^https?:\/\//, '')}
                lanes={ofServer(lanes, server)}
                from={from}
                to={to}
              />
            ))}
            <ul style={{ height: list.getTotalSize(), position: 'relative' }} aria-label="Trajectories">
              {list.getVirtualItems().map(({ index, start }) => {
                const lane = lanes[index]!;
                return (
                  <li key={lane.position} className="lane" style={{ transform: `translateY(${start}px)` }}>
                    <a
                      className="lane-name"
                      href={href('trajectory', { run: run.id, step, position: lane.position })}
                    >
                      {lane.taskIndex} / {lane.attempt}
                    </a>
                    <span className="lane-track">
                      {lane.spans.map((span, at) => (
                        <i
                          key={at}
                          className={`span-${span.kind}${span.problem ? ' span-problem' : ''}`}
                          style={{
                            left: `${percent(span.start)}%`,
                            width: `max(2px, ${percent(span.end) - percent(span.start)}%)`,
                          }}
                          title={`${LABELS[span.kind] ?? span.kind} ${span.name}, turn ${span.turn}: ${short(span.end - span.start)} ms${span.problem ? `, ${span.problem}` : ''}`}
                        />
                      ))}
                    </span>
                  </li>
                );
              })}
            </ul>
          </div>
        </div>
      )}
    </>
  );
}

/** How many trajectories generate, run a tool, wait or are scored at the same time. */
function AtOnce({
  name,
  lanes,
  from,
  to,
}: {
  name: string;
  lanes: readonly TimelineLane[];
  from: number;
  to: number;
}) {
  const { paths, most } = useMemo(() => stacked(lanes, from, to), [lanes, from, to]);
  const hits = useMemo(() => cacheHits(lanes), [lanes]);
  return (
    <div className="lane at-once">
      <span className="lane-name">
        {name}
        <br />
        <span className="quiet">at most {most} at once</span>
        {hits !== undefined && (
          <>
            <br />
            <span className="quiet">cache hits {hits} %</span>
          </>
        )}
      </span>
      <svg
        className="lane-track"
        viewBox={`0 0 ${BUCKETS} 60`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${name}: at most ${most} at once`}
      >
        {paths.map(({ kind, path }) => (
          <path key={kind} d={path} className={`area-${kind}`} />
        ))}
      </svg>
    </div>
  );
}

/** Share of prompt tokens that a server had kept, in percent; undefined where none says. */
function cacheHits(lanes: readonly TimelineLane[]): number | undefined {
  const told = lanes.flatMap(({ spans }) => spans.filter(({ cachedTokens }) => cachedTokens !== undefined));
  const prompt = told.reduce((sum, { promptTokens }) => sum + (promptTokens ?? 0), 0);
  const cached = told.reduce((sum, { cachedTokens }) => sum + cachedTokens!, 0);
  return prompt === 0 ? undefined : Math.round((100 * cached) / prompt);
}

function stacked(lanes: readonly TimelineLane[], from: number, to: number) {
  const counts = KINDS.map(() => new Float64Array(BUCKETS));
  const width = Math.max(1e-9, (to - from) / BUCKETS);
  for (const { spans } of lanes) {
    for (const { kind, start, end } of spans) {
      const column = counts[KINDS.indexOf(kind as (typeof KINDS)[number])];
      if (!column) continue;
      const last = Math.min(BUCKETS - 1, Math.floor((end - from) / width));
      for (let at = Math.max(0, Math.floor((start - from) / width)); at <= last; at++) {
        const [left, right] = [from + at * width, from + (at + 1) * width];
        column[at]! += Math.max(0, Math.min(end, right) - Math.max(start, left)) / width;
      }
    }
  }
  const totals = Array.from({ length: BUCKETS }, (_, at) =>
    counts.reduce((sum, column) => sum + column[at]!, 0),
  );
  const most = Math.max(1, ...totals);
  const base = new Float64Array(BUCKETS);
  const paths = KINDS.map((kind, index) => {
    const y = (value: number) => (60 - (58 * value) / most).toFixed(2);
    const lower = Array.from(base, (value, at) => `${at + 0.5},${y(value)}`).reverse();
    const upper = Array.from(base, (value, at) => {
      base[at] = value + counts[index]![at]!;
      return `${at + 0.5},${y(base[at]!)}`;
    });
    return { kind, path: `M${upper.join('L')}L${lower.join('L')}Z` };
  });
  return { paths, most: Math.round(most) };
}

const startOf = ({ spans }: TimelineLane) =>
  spans.reduce((least, { start }) => Math.min(least, start), Infinity);
const endOf = ({ spans }: TimelineLane) => spans.reduce((most, { end }) => Math.max(most, end), -Infinity);
const ofServer = (lanes: readonly TimelineLane[], server: string) =>
  lanes.map((lane) => ({ ...lane, spans: lane.spans.filter((span) => span.server === server) }));

function extent(lanes: readonly TimelineLane[]): [number, number] {
  const from = lanes.reduce((least, lane) => Math.min(least, startOf(lane)), Infinity);
  const to = lanes.reduce((most, lane) => Math.max(most, endOf(lane)), -Infinity);
  return Number.isFinite(from) ? [from, to] : [0, 1];
}
