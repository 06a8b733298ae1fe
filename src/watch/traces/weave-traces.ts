import { ConfigError } from '../../errors.ts';
import type { Tracker } from '../tracker.ts';
import { basic, request } from '../trackers/http.ts';
import { WANDB_URL } from '../trackers/wandb-online.ts';
import { type TraceOptions, traceTracker } from './otlp.ts';
import type { TraceSpan } from './trajectory-spans.ts';

/** Which Weave project traces go to. */
export interface WeaveTracesOptions extends TraceOptions {
  readonly project: string;
  /** User or team; WANDB_ENTITY without it, or the key's own. */
  readonly entity?: string;
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

const WEAVE_URL = 'https://trace.wandb.ai';

/** Traces to W&B Weave, through its OTLP endpoint. */
export function weaveTraces({
  project,
  environment = process.env,
  entity = environment['WANDB_ENTITY'],
  ...options
}: WeaveTracesOptions): Tracker {
  const { WANDB_API_KEY: apiKey, WANDB_BASE_URL: base, WF_TRACE_SERVER_URL: url } = environment;
  if (!apiKey) {
    throw new ConfigError('WANDB_API_KEY is not set; copy the key from https://wandb.ai/authorize');
  }
  const tracker = traceTracker('weave traces', options, async (_, signal) => {
    const owner = entity || (await ownEntity(base ?? WANDB_URL, apiKey, signal));
    return {
      url: `${(url ?? WEAVE_URL).replace(/\/+$/, '')}/otel/v1/traces`,
      place: `${owner}/${project}`,
      headers: async () => ({ 'wandb-api-key': apiKey, project_id: `${owner}/${project}` }),
      resource: { 'wandb.entity': owner, 'wandb.project': project },
      adapt: asCalls,
    };
  });
  return { ...tracker, experimental: "its OTLP endpoint was never tried against W&B's servers" };
}

/**
 * Weave makes a call of each span: its inputs and output from attributes that it knows, and what stands under
 * `wandb.attributes` beside them. With verl, its own client puts step, sample and attempt of a trajectory on every call.
 */
function asCalls(spans: readonly TraceSpan[]): TraceSpan[] {
  const { attributes: root = {} } = spans.find(({ parentId }) => parentId === undefined) ?? {};
  const tags = {
    'wandb.attributes.step': root['rollcall.step']!,
    'wandb.attributes.sample_index': root['rollcall.sample_index']!,
    'wandb.attributes.rollout_n': root['rollcall.attempt']!,
    'wandb.attributes.validate': 'rollcall.evaluation' in root,
    'wandb.attributes.experiment_name': root['mlflow.traceTag.experiment_name']!,
  };
  return spans.map((span) => {
    const kept = Object.entries(span.attributes).filter(([name]) => !name.startsWith('mlflow.'));
    // A span without any attribute that Weave knows would be shown with all of them as they are.
    const kind = { 'weave.span.kind': String(span.attributes['gen_ai.operation.name'] ?? span.name) };
    return {
      ...span,
      attributes: { ...Object.fromEntries(kept), ...kind, ...tags, ...inputAndOutput(span) },
    };
  });
}

/** Messages are known as they are; tools, rewards and replies without text are not. */
function inputAndOutput({ attributes }: TraceSpan): Record<string, string> {
  const { 'gen_ai.tool.call.arguments': given, 'gen_ai.tool.call.result': result } = attributes;
  if (given !== undefined) return { inputs: String(given), output: String(result) };
  const { 'rollcall.response_ids': ids, 'rollcall.reward': reward } = attributes;
  if ('gen_ai.output.messages' in attributes) return {};
  if (ids !== undefined) return { outputs: JSON.stringify({ token_ids: ids }) };
  return reward === undefined ? {} : { outputs: JSON.stringify({ reward }) };
}

async function ownEntity(url: string, apiKey: string, signal: AbortSignal): Promise<string> {
  const body = { query: 'query Viewer { viewer { entity } }', variables: {} };
  const answer = (await request(`${url.replace(/\/+$/, '')}/graphql`, {
    headers: basic('api', apiKey),
    body,
    signal,
  })) as { readonly data?: { readonly viewer?: { readonly entity?: string } | null } };
  const entity = answer.data?.viewer?.entity;
  if (entity === undefined) throw new Error('answered without the entity of the key; set WANDB_ENTITY');
  return entity;
}
