import { randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { loadOptional } from '../../lib/optional-package.ts';
import { keepNamedSecrets } from '../../lib/secrets.ts';
import type { TrackedRun, Tracker } from '../tracker.ts';
import { request } from '../trackers/http.ts';
import { type SpanContext, type TraceSpan, trajectorySpans } from './trajectory-spans.ts';

/** How many trajectories are traced, and whether their text is sent. */
export interface TraceOptions {
  readonly experiment: string;
  /** Messages and the text of tokens beside their ids (verl: token2text). */
  readonly text?: boolean;
  /** Trace all attempts at this many tasks of a step; if not given, all tasks. */
  readonly tasksPerStep?: number | undefined;
}

/** Which OpenTelemetry collector traces go to. */
export interface OtlpOptions extends TraceOptions {
  /** Where traces are posted: `…/v1/traces`. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly resource?: Readonly<Record<string, string>>;
}

/** Where and as what traces are posted, known once the tracker is open. */
export interface TraceTarget {
  readonly url: string;
  /** Where the traces are stored: trace ids are unique there, so the same run has other ids elsewhere. */
  readonly place: string;
  headers(): Promise<Readonly<Record<string, string>>>;
  /** The spans of one trajectory in this place's own words. */
  adapt?(spans: readonly TraceSpan[]): readonly TraceSpan[];
  /** Called after a post. */
  sent?(traceIds: readonly string[], signal: AbortSignal): Promise<void>;
  close?(signal: AbortSignal): Promise<void>;
  readonly resource?: Readonly<Record<string, string>>;
}

/** Traces to any collector that takes OTLP over HTTP in protobuf. */
export function otlp({ url, headers = {}, resource = {}, ...options }: OtlpOptions): Tracker {
  keepNamedSecrets(headers);
  return traceTracker('otlp traces', options, async () => ({
    url,
    place: url,
    headers: async () => headers,
    resource,
  }));
}

export function traceTracker(
  name: string,
  { experiment, text = false, tasksPerStep, patienceMs }: TraceOptions & Pick<Tracker, 'patienceMs'>,
  open: (run: TrackedRun, signal: AbortSignal) => Promise<TraceTarget>,
): Tracker {
  let target: TraceTarget;
  let context: SpanContext;
  let encode: (spans: readonly TraceSpan[]) => Uint8Array;
  return {
    name,
    tracedTasksPerStep: tasksPerStep,
    patienceMs,
    open: async (run, signal) => {
      target = await open(run, signal);
      const model = run.options['model'];
      context = {
        run: await traceKey(run, target.place),
        experiment,
        model: typeof model === 'string' ? model : 'policy',
        clockBegan: run.clockBegan,
        decode: text ? run.decode : undefined,
      };
      // Loaded here: most runs send no traces, and every command would wait for it.
      const { spanEncoder } = await loadOptional(
        'Sending traces',
        ['@opentelemetry/api', '@opentelemetry/otlp-transformer', '@opentelemetry/resources'],
        () => import('./otlp-encoding.ts'),
      );
      encode = spanEncoder({ 'service.name': 'rollcall', ...target.resource });
    },
    trace: async (trajectories, signal) => {
      const spans: TraceSpan[] = [];
      for (const scored of trajectories) {
        const own = trajectorySpans(scored, context);
        spans.push(...(target.adapt?.(own) ?? own));
        await setImmediate(); // the work of running trajectories comes first
      }
      const body = encode(spans);
      const headers = { 'content-type': 'application/x-protobuf', ...(await target.headers()) };
      await request(target.url, { headers, body, signal });
      await target.sent?.([...new Set(spans.map(({ traceId }) => traceId))], signal);
    },
    close: async (_, signal) => target.close?.(signal),
  };
}

/** Kept with the run: a resumed or exported run makes the ids that it made before in that place. */
async function traceKey({ memory }: TrackedRun, place: string): Promise<string> {
  const known = (await memory.read(`traces ${place}`))?.['key'];
  if (known !== undefined) return known;
  const key = randomBytes(16).toString('hex');
  await memory.write(`traces ${place}`, { key });
  return key;
}
