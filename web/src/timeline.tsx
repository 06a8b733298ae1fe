import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef } from 'react';
import type { TimelineLane, TimelineView } from '../../src/watch/dashboard/api.ts';
import type { ViewProps } from './app.tsx';
import { api, useApi } from './data.ts';
import { countsOver, LaneChart, stackedAreas } from './lane-chart.tsx';
import { short } from './numbers.ts';
import { change, href, useRoute } from './route.ts';
import { ServerLane } from './server-lane.tsx';
import { Notice, StepPicker, useSteps } from './step-picker.tsx';

const KINDS = ['generate', 'tool', 'interaction', 'reward', 'wait'] as const;
const LABELS: Readonly<Record<string, string>> = { generate: 'generating', wait: 'waiting' };
const ORDERS: Readonly<Record<string, { label: string; of: (lane: TimelineLane) => number }>> = {
  task: { label: 'task', of: (lane) => lane.position },
  longest: { label: 'longest first', of: (lane) => -(endOf(lane) - startOf(lane)) },
  last: { label: 'last to finish first', of: (lane) => -endOf(lane) },
};

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
          {servers.length > 0 && (
            <li>
              <i className="box line-hits" aria-hidden="true" /> cache hits
            </li>
          )}
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
              <ServerLane
                key={server}
                name={server}
                samples={data.servers}
                lanes={lanes}
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
  const { areas, most } = useMemo(() => {
    const counts = KINDS.map((kind) =>
      countsOver(
        lanes.flatMap(({ spans }) => spans.filter((span) => span.kind === kind)),
        from,
        to,
      ),
    );
    return stackedAreas(counts);
  }, [lanes, from, to]);
  return (
    <div className="lane at-once">
      <span className="lane-name">
        {name}
        <br />
        <span className="quiet">at most {most} at once</span>
      </span>
      <LaneChart label={`${name}: at most ${most} at once`}>
        {areas.map((path, at) => (
          <path key={KINDS[at]} d={path} className={`area-${KINDS[at]}`} />
        ))}
      </LaneChart>
    </div>
  );
}

const startOf = ({ spans }: TimelineLane) =>
  spans.reduce((least, { start }) => Math.min(least, start), Infinity);
const endOf = ({ spans }: TimelineLane) => spans.reduce((most, { end }) => Math.max(most, end), -Infinity);

function extent(lanes: readonly TimelineLane[]): [number, number] {
  const from = lanes.reduce((least, lane) => Math.min(least, startOf(lane)), Infinity);
  const to = lanes.reduce((most, lane) => Math.max(most, endOf(lane)), -Infinity);
  return Number.isFinite(from) ? [from, to] : [0, 1];
}
