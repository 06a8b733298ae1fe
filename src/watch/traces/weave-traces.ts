import { ConfigError } from '../../errors.ts';
import type { Tracker } from '../tracker.ts';
import { basic, request } from '../trackers/http.ts';
import { WANDB_URL } from '../trackers/wandb-online.ts';
import { type TraceOptions, traceTracker } from './otlp.ts';

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
    };
  });
  return { ...tracker, experimental: "its OTLP endpoint was never tried against W&B's servers" };
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
