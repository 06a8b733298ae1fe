import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Stand-ins for tracking servers, written from their reference documentation and sharing no code with src/. They
 * check what the real ones check. `npm run prove trackers` tries the same against the real ones.
 */
export interface StandIn<State> {
  readonly url: string;
  readonly state: State;
  /** Requests that arrived, as "METHOD path". */
  readonly requests: string[];
  /** How the next requests are answered. `hang` never answers, `cut` drops the connection. */
  fault: 'none' | 'hang' | 'cut' | 500;
  close(): Promise<void>;
}

export interface Answer {
  readonly status?: number;
  readonly body: unknown;
}

export interface Incoming {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly bytes: Buffer;
  json(): Record<string, unknown>;
}

export async function standIn<State>(
  state: State,
  answer: (request: Incoming, state: State) => Answer,
): Promise<StandIn<State>> {
  const requests: string[] = [];
  const handle = async (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const url = new URL(incoming.url!, 'http://stand-in');
    requests.push(`${incoming.method} ${url.pathname}`);
    if (server.fault === 'hang') return;
    if (server.fault === 'cut') return void incoming.socket.destroy();
    const bytes = Buffer.concat(chunks);
    const json = () => JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
    const { status = 200, body }: Answer =
      server.fault === 500
        ? { status: 500, body: { message: 'out of order' } }
        : answer({ method: incoming.method!, url, headers: incoming.headers, bytes, json }, state);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const http = createServer((incoming, response) => void handle(incoming, response));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const server: StandIn<State> = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    state,
    requests,
    fault: 'none',
    close: async () => {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  return server;
}

export interface MlflowRun {
  readonly experiment: string;
  readonly name: string;
  status: string;
  readonly params: Map<string, string>;
  readonly tags: Map<string, string>;
  readonly metrics: { key: string; value: number | string; step: number; timestamp: number }[];
  readonly artifacts: Map<string, Buffer>;
}

export interface MlflowState {
  readonly experiments: string[];
  readonly runs: Map<string, MlflowRun>;
  /** Required of every request, if given. */
  authorization?: string;
  /** By trace id: the experiment it was sent to, and the run it was linked to. */
  readonly traces: Map<string, { readonly experiment: string; run?: string }>;
}

const no = (status: number, code: string, message: string): Answer => ({
  status,
  body: { error_code: code, message },
});

interface Pair {
  key: string;
  value: string;
}

/** MLflow's REST API 2.0, and its artefact proxy. */
export const mlflowStandIn = (): Promise<StandIn<MlflowState>> =>
  standIn<MlflowState>(
    { experiments: ['Default'], runs: new Map(), traces: new Map() },
    ({ method, url, headers, bytes, json }, state) => {
      if (state.authorization && headers.authorization !== state.authorization)
        return no(401, 'UNAUTHENTICATED', '');
      const artifact = /^\/api\/2\.0\/mlflow-artifacts\/artifacts\/(\d+)\/(\w+)\/artifacts\/(.+)$/.exec(
        url.pathname,
      );
      if (artifact && method === 'PUT') {
        state.runs.get(artifact[2]!)!.artifacts.set(artifact[3]!, bytes);
        return { body: {} };
      }
      if (url.pathname === '/v1/traces') {
        const experiment = state.experiments[Number(headers['x-mlflow-experiment-id'])];
        if (experiment === undefined || headers['content-type'] !== 'application/x-protobuf')
          return no(400, 'INVALID_PARAMETER_VALUE', 'experiment or content type');
        for (const { traceId } of decodeSpans(bytes).spans) state.traces.set(`tr-${traceId}`, { experiment });
        return { body: {} };
      }
      const run = (id: unknown) => state.runs.get(String(id));
      switch (`${method} ${url.pathname.replace('/api/2.0/mlflow/', '')}`) {
        case 'GET experiments/get-by-name': {
          const name = url.searchParams.get('experiment_name')!;
          const id = state.experiments.indexOf(name);
          if (id < 0) return no(404, 'RESOURCE_DOES_NOT_EXIST', `no experiment ${name}`);
          return { body: { experiment: { experiment_id: String(id), name, lifecycle_stage: 'active' } } };
        }
        case 'POST experiments/create': {
          const name = String(json()['name']);
          if (state.experiments.includes(name)) return no(400, 'RESOURCE_ALREADY_EXISTS', name);
          return { body: { experiment_id: String(state.experiments.push(name) - 1) } };
        }
        case 'POST runs/create': {
          const { experiment_id: experiment, run_name: name, tags, start_time: start } = json();
          if (!Number.isInteger(start)) return no(400, 'INVALID_PARAMETER_VALUE', 'start_time is an int64');
          const id = `run${state.runs.size}`;
          state.runs.set(id, {
            experiment: state.experiments[Number(experiment)]!,
            name: String(name),
            status: 'RUNNING',
            params: new Map(),
            tags: new Map((tags as Pair[]).map(({ key, value }) => [key, value])),
            metrics: [],
            artifacts: new Map(),
          });
          const info = {
            run_id: id,
            artifact_uri: `mlflow-artifacts:/${String(experiment)}/${id}/artifacts`,
          };
          return { body: { run: { info, data: {} } } };
        }
        case 'GET runs/get': {
          const id = url.searchParams.get('run_id')!;
          const known = run(id);
          if (!known) return no(404, 'RESOURCE_DOES_NOT_EXIST', id);
          const latest = new Map(known.metrics.map((metric) => [metric.key, metric]));
          const info = { run_id: id, artifact_uri: `mlflow-artifacts:/0/${id}/artifacts` };
          return {
            body: {
              run: {
                info,
                data: {
                  metrics: [...latest.values()],
                  params: [...known.params.keys()].map((key) => ({ key })),
                },
              },
            },
          };
        }
        case 'POST runs/update': {
          const { run_id: id, status } = json();
          run(id)!.status = String(status);
          return { body: {} };
        }
        case 'POST runs/set-tag': {
          const { run_id: id, key, value } = json();
          run(id)!.tags.set(String(key), String(value));
          return { body: {} };
        }
        case 'POST traces/link-to-run': {
          const { trace_ids: ids, run_id: id } = json() as { trace_ids: string[]; run_id: string };
          if (ids.length > 100) return no(400, 'INVALID_PARAMETER_VALUE', 'more than 100 traces');
          for (const trace of ids) state.traces.get(trace)!.run = id;
          return { body: {} };
        }
        case 'POST runs/log-batch':
          return logBatch(json(), run(json()['run_id'])!, bytes.length);
        default:
          return no(404, 'ENDPOINT_NOT_FOUND', url.pathname);
      }
    },
  );

function logBatch(body: Record<string, unknown>, run: MlflowRun, size: number): Answer {
  const metrics = (body['metrics'] ?? []) as MlflowRun['metrics'];
  const params = (body['params'] ?? []) as Pair[];
  const bad = (message: string) => no(400, 'INVALID_PARAMETER_VALUE', message);
  if (size > 1_000_000) return bad('the request is over 1 MB');
  if (metrics.length > 1000 || params.length > 100) return bad('too many entries');
  const names = [...metrics, ...params].map(({ key }) => key);
  const wrong = names.find((name) => !/^[\w.\-/ :]{1,250}$/.test(name));
  if (wrong !== undefined) return bad(`invalid name ${wrong}`);
  for (const { value, step, timestamp } of metrics) {
    const isNumber = typeof value === 'number' || ['NaN', 'Infinity', '-Infinity'].includes(value);
    if (!isNumber || !Number.isInteger(step) || !Number.isInteger(timestamp)) return bad('not a metric');
  }
  for (const { key, value } of params) {
    if (typeof value !== 'string' || value.length > 6000) return bad(`param ${key}`);
    if ((run.params.get(key) ?? value) !== value) return bad(`param ${key} changed`);
    run.params.set(key, value);
  }
  run.metrics.push(...metrics);
  return { body: {} };
}

export interface WandbState {
  readonly runs: Map<
    string,
    { variables: Record<string, unknown>; history: string[]; summary: string; exit?: number }
  >;
  readonly files: Map<string, Buffer>;
}

/** W&B's GraphQL calls that make a run, and the file stream that fills it. */
export const wandbStandIn = (apiKey: string): Promise<StandIn<WandbState>> =>
  standIn<WandbState>({ runs: new Map(), files: new Map() }, ({ url, headers, bytes, json }, state) => {
    if (url.pathname.startsWith('/upload/')) {
      state.files.set(url.pathname.slice('/upload/'.length), bytes);
      return { body: {} };
    }
    if (headers.authorization !== `Basic ${Buffer.from(`api:${apiKey}`).toString('base64')}`) {
      return { status: 401, body: { errors: [{ message: 'permission denied' }] } };
    }
    if (url.pathname === '/graphql') {
      const { query, variables } = json() as { query: string; variables: Record<string, string> };
      if (query.includes('Viewer')) return { body: { data: { viewer: { entity: 'somebody' } } } };
      if (query.includes('CreateRunFiles')) {
        const files = (variables['files'] as unknown as string[]).map((name) => ({
          name,
          uploadUrl: `http://${headers.host}/upload/${name}`,
        }));
        return { body: { data: { createRunFiles: { runID: 'storage', uploadHeaders: [], files } } } };
      }
      const id = variables['name']!;
      const known = state.runs.get(id);
      if (query.includes('RunResumeStatus')) {
        const tail = JSON.stringify(known?.history.slice(-1) ?? []);
        return {
          body: {
            data: { model: { bucket: { historyLineCount: known?.history.length, historyTail: tail } } },
          },
        };
      }
      if (!known) state.runs.set(id, { variables, history: [], summary: '' });
      const project = { name: variables['project'], entity: { name: variables['entity'] ?? 'somebody' } };
      const bucket = { name: id, historyLineCount: known?.history.length ?? 0, project };
      return { body: { data: { upsertBucket: { bucket, inserted: !known } } } };
    }
    const run = state.runs.get(/^\/files\/[^/]+\/[^/]+\/([^/]+)\/file_stream$/.exec(url.pathname)?.[1] ?? '');
    if (!run) return { status: 404, body: {} };
    const {
      files = {},
      complete,
      exitcode,
    } = json() as {
      files?: Record<string, { offset: number; content: string[] }>;
      complete?: boolean;
      exitcode?: number;
    };
    const { 'wandb-history.jsonl': history, 'wandb-summary.json': summary } = files;
    // A line has its place: sent again, it replaces itself.
    for (const [at, line] of (history?.content ?? []).entries()) run.history[history!.offset + at] = line;
    if (summary) run.summary = summary.content[0]!;
    if (complete) run.exit = exitcode!;
    return { body: { exitcode: null, limits: {} } };
  });

export interface CollectorState {
  readonly bodies: Buffer[];
  readonly headers: IncomingMessage['headers'][];
}

/** An OTLP collector over HTTP: protobuf only, as MLflow and Weave are. */
export const collectorStandIn = (): Promise<StandIn<CollectorState>> =>
  standIn<CollectorState>({ bodies: [], headers: [] }, ({ headers, bytes }, state) => {
    if (headers['content-type'] !== 'application/x-protobuf') return { status: 400, body: {} };
    state.bodies.push(bytes);
    state.headers.push(headers);
    return { body: {} };
  });

/** A protobuf message by its wire format alone: values by field number. */
export function decodeMessage(bytes: Buffer): Map<number, (bigint | Buffer)[]> {
  const fields = new Map<number, (bigint | Buffer)[]>();
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const take = (size: number) => {
      at += size;
      return bytes.subarray(at - size, at);
    };
    const wire = key & 7;
    const value = wire === 0 ? varint() : take(wire === 1 ? 8 : wire === 5 ? 4 : Number(varint()));
    fields.set(key >> 3, [...(fields.get(key >> 3) ?? []), value]);
  }
  return fields;
}

export interface DecodedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  readonly name: string;
  readonly start: bigint;
  readonly end: bigint;
  readonly status: number;
  readonly attributes: Record<string, unknown>;
}

/** The spans of an ExportTraceServiceRequest, by the field numbers of opentelemetry-proto. */
export function decodeSpans(body: Buffer): { resource: Record<string, unknown>; spans: DecodedSpan[] } {
  const all = (fields: Map<number, (bigint | Buffer)[]>, field: number) =>
    (fields.get(field) ?? []) as Buffer[];
  const attributes = (pairs: readonly Buffer[]): Record<string, unknown> =>
    Object.fromEntries(
      pairs.map((pair) => {
        const fields = decodeMessage(pair);
        return [all(fields, 1)[0]!.toString(), anyValue(all(fields, 2)[0]!)];
      }),
    );
  const anyValue = (bytes: Buffer): unknown => {
    const fields = decodeMessage(bytes);
    const [[field, [value]]] = [...fields] as [[number, [bigint | Buffer]]];
    if (field === 1) return (value as Buffer).toString();
    if (field === 2) return value === 1n;
    if (field === 3) return Number(BigInt.asIntN(64, value as bigint));
    if (field === 4) return (value as Buffer).readDoubleLE();
    return all(decodeMessage(value as Buffer), 1).map(anyValue);
  };
  const resources = all(decodeMessage(body), 1).map(decodeMessage);
  const spans = resources
    .flatMap((resource) => all(resource, 2))
    .flatMap((scope) => all(decodeMessage(scope), 2))
    .map((bytes): DecodedSpan => {
      const span = decodeMessage(bytes);
      return {
        traceId: all(span, 1)[0]!.toString('hex'),
        spanId: all(span, 2)[0]!.toString('hex'),
        parentId: all(span, 4)[0]?.toString('hex') ?? '',
        name: all(span, 5)[0]!.toString(),
        start: all(span, 7)[0]!.readBigUInt64LE(),
        end: all(span, 8)[0]!.readBigUInt64LE(),
        status: Number(decodeMessage(all(span, 15)[0]!).get(3)?.[0] ?? 0n),
        attributes: attributes(all(span, 9)),
      };
    });
  return { resource: attributes(all(decodeMessage(all(resources[0]!, 1)[0]!), 1)), spans };
}

/** Bit by bit, so that it shares nothing with a table. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** Events of a TensorBoard file; throws where a checksum is wrong. */
export function readEvents(file: Buffer): {
  step: number;
  wallTime: number;
  restart: boolean;
  scalars: Record<string, number>;
  images: Record<string, Buffer>;
  texts: Record<string, string>;
}[] {
  const unmasked = (masked: number) => {
    const rotated = (masked - 0xa282ead8) >>> 0;
    return ((rotated << 15) | (rotated >>> 17)) >>> 0;
  };
  const events = [];
  for (let at = 0; at < file.length; ) {
    const length = Number(file.readBigUInt64LE(at));
    const data = file.subarray(at + 12, at + 12 + length);
    if (unmasked(file.readUInt32LE(at + 8)) !== crc32c(file.subarray(at, at + 8)))
      throw new Error(`length at ${at}`);
    if (unmasked(file.readUInt32LE(at + 12 + length)) !== crc32c(data)) throw new Error(`data at ${at}`);
    at += 16 + length;
    const event = decodeMessage(data);
    const summary = event.get(5)?.[0] as Buffer | undefined;
    const values = ((summary && decodeMessage(summary).get(1)) ?? []) as Buffer[];
    events.push({
      step: Number(event.get(2)?.[0] ?? 0n),
      wallTime: (event.get(1)![0] as Buffer).readDoubleLE(),
      restart: event.has(7),
      scalars: Object.fromEntries(
        values
          .map(decodeMessage)
          .filter((value) => value.has(2))
          .map((value) => [String(value.get(1)![0]), (value.get(2)![0] as Buffer).readFloatLE()]),
      ),
      texts: Object.fromEntries(
        values
          .map(decodeMessage)
          .filter((value) => value.has(8))
          .map((value) => [
            String(value.get(1)![0]),
            String(decodeMessage(value.get(8)![0] as Buffer).get(8)![0]),
          ]),
      ),
      images: Object.fromEntries(
        values
          .map(decodeMessage)
          .filter((value) => value.has(4))
          .map((value) => [
            String(value.get(1)![0]),
            decodeMessage(value.get(4)![0] as Buffer).get(4)![0] as Buffer,
          ]),
      ),
    });
  }
  return events;
}
