import { useMemo } from 'react';
import type { TimelineLane, TimelineView } from '../../src/watch/dashboard/api.ts';
import { BUCKETS, countsOver, LaneChart, shareLine, stackedAreas } from './lane-chart.tsx';

interface ServerLaneProps {
  readonly name: string;
  readonly samples: TimelineView['servers'];
  readonly lanes: readonly TimelineLane[];
  readonly from: number;
  readonly to: number;
}

/**
 * What a server had to do: requests that it computed and that waited in it, and how much of their prompts it had kept.
 * Requests are known from the spans of trajectories; how many of them waited only the server can say.
 */
export function ServerLane({ name, samples, lanes, from, to }: ServerLaneProps) {
  const { areas, most, queued, hits, line } = useMemo(() => {
    const spans = lanes.flatMap((lane) => lane.spans.filter(({ server }) => server === name));
    const sent = countsOver(spans, from, to);
    const waiting = queuedOver(name, samples, from, to);
    const inQueue = sent.map((count, at) => Math.min(count, waiting[at]!));
    const shares = hitsOver(spans, from, to);
    return {
      ...stackedAreas([sent.map((count, at) => count - inQueue[at]!), inQueue]),
      queued: samples?.servers.some((one) => one.name === name && one.queued.some((value) => value !== null))
        ? Math.round(Math.max(...inQueue))
        : undefined,
      hits: cacheHits(spans),
      line: shareLine(shares),
    };
  }, [name, samples, lanes, from, to]);
  const shown = name.replace(/^https?:\/\//, '');
  const facts = [
    `at most ${most} at once`,
    ...(queued === undefined ? [] : [`${queued} in its queue`]),
    ...(hits === undefined ? [] : [`cache hits ${Math.round(100 * hits)} %`]),
  ];
  return (
    <div className="lane at-once">
      <span className="lane-name">
        {shown}
        {facts.map((fact) => (
          <span key={fact} className="quiet fact">
            {fact}
          </span>
        ))}
      </span>
      <LaneChart label={`${shown}: ${facts.join(', ')}`}>
        <path d={areas[0]} className="area-generate" />
        <path d={areas[1]} className="area-wait" />
        <path d={line} className="line-hits" />
      </LaneChart>
    </div>
  );
}

type ServedSpan = TimelineLane['spans'][number];

/** Share of prompt tokens that the server had kept; undefined where it does not say. */
function cacheHits(spans: readonly ServedSpan[]): number | undefined {
  const told = spans.filter(({ cachedTokens }) => cachedTokens !== undefined);
  const prompt = told.reduce((sum, { promptTokens }) => sum + (promptTokens ?? 0), 0);
  const cached = told.reduce((sum, { cachedTokens }) => sum + cachedTokens!, 0);
  return prompt === 0 ? undefined : cached / prompt;
}

/** The same by time: of the requests that began in each bucket. */
function hitsOver(spans: readonly ServedSpan[], from: number, to: number): (number | null)[] {
  const buckets = Array.from({ length: BUCKETS }, (): ServedSpan[] => []);
  for (const span of spans) {
    const at = Math.floor(((span.start - from) / Math.max(1e-9, to - from)) * BUCKETS);
    buckets[Math.max(0, Math.min(BUCKETS - 1, at))]!.push(span);
  }
  return buckets.map((begun) => cacheHits(begun) ?? null);
}

/** The longest queue of each bucket; between two samples, that of the last. */
function queuedOver(name: string, samples: TimelineView['servers'], from: number, to: number): Float64Array {
  const counts = new Float64Array(BUCKETS);
  const queued = samples?.servers.find((server) => server.name === name)?.queued ?? [];
  const width = Math.max(1e-9, (to - from) / BUCKETS);
  queued.forEach((count, at) => {
    const [start, end] = [samples!.at[at]!, samples!.at[at + 1] ?? to];
    const last = Math.min(BUCKETS - 1, Math.floor((end - from) / width));
    for (let bucket = Math.max(0, Math.floor((start - from) / width)); bucket <= last; bucket++) {
      counts[bucket] = Math.max(counts[bucket]!, count ?? 0);
    }
  });
  return counts;
}
