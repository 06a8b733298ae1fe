/** What SGLang and vLLM tell of their load, in one shape. */
import type { HttpClient } from './http/client.ts';
import type { ServerLoad } from './server.ts';

/** `GET /v1/loads`: one entry per data-parallel rank. Undefined where the server has no such page. */
export async function sglangLoad(http: HttpClient, signal?: AbortSignal): Promise<ServerLoad | undefined> {
  const { status, text } = await http.call('/v1/loads', { method: 'GET', signal });
  if (status !== 200) return undefined;
  const { loads } = http.parse<{ loads?: readonly Readonly<Record<string, unknown>>[] }>('/v1/loads', text);
  if (!loads?.length) return undefined;
  const sum = (name: string) => {
    const values = loads.map((load) => load[name]).filter((value) => typeof value === 'number');
    return values.length > 0 ? values.reduce((total, value) => total + value, 0) : undefined;
  };
  const mean = (name: string) => {
    const total = sum(name);
    return total === undefined ? undefined : total / loads.length;
  };
  return known({
    running: sum('num_running_reqs') ?? 0,
    queued: sum('num_waiting_reqs') ?? 0,
    kvUse: mean('token_usage') ?? 0,
    kvTokens: sum('max_total_num_tokens'),
    preemptions: sum('num_retracted_reqs'),
    cacheHits: mean('cache_hit_rate') || undefined, // an idle server says 0
  });
}

/** `GET /metrics`, in Prometheus' text format. Undefined where the server has no such page, or it is not vLLM's. */
export async function vllmLoad(http: HttpClient, signal?: AbortSignal): Promise<ServerLoad | undefined> {
  const { status, text } = await http.call('/metrics', { method: 'GET', signal });
  if (status !== 200) return undefined;
  const values = (name: string) =>
    [...text.matchAll(new RegExp(`^vllm:${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].map(([, value]) =>
      Number(value),
    );
  const sum = (name: string) => {
    const all = values(name);
    return all.length > 0 ? all.reduce((total, value) => total + value, 0) : undefined;
  };
  const use = values('(?:kv|gpu)_cache_usage_perc');
  const running = sum('num_requests_running');
  if (running === undefined) return undefined;
  const asked = sum('prefix_cache_queries(?:_total)?');
  const found = sum('prefix_cache_hits(?:_total)?');
  return known({
    running,
    queued: sum('num_requests_waiting') ?? 0,
    kvUse: use.length > 0 ? use.reduce((total, value) => total + value, 0) / use.length : 0,
    kvTokens: vllmMemory(text),
    preemptions: sum('num_preemptions(?:_total)?'),
    cacheHits: asked && found !== undefined ? found / asked : undefined,
  });
}

/** Blocks times their size, over all engines; both are labels of an info metric. */
function vllmMemory(text: string): number | undefined {
  const infos = [...text.matchAll(/^vllm:cache_config_info\{([^}]*)\}/gm)].map(([, labels]) => labels!);
  const label = (labels: string, name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(labels)?.[1]);
  const tokens = infos.map((labels) => label(labels, 'num_gpu_blocks') * label(labels, 'block_size'));
  const total = tokens.reduce((sum, one) => sum + one, 0);
  return total > 0 ? total : undefined;
}

type Maybe<T> = { readonly [K in keyof T]: T[K] | undefined };

function known(load: Maybe<Required<ServerLoad>>): ServerLoad {
  return Object.fromEntries(
    Object.entries(load).filter(([, value]) => value !== undefined),
  ) as unknown as ServerLoad;
}
