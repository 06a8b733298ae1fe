/** New weights of a vLLM server: what its development endpoints take. */
import { EngineError } from '../errors.ts';
import { type HttpClient, HttpStatusError } from './http/client.ts';

export async function reloadWeights(http: HttpClient, path: string, timeoutMs: number): Promise<void> {
  const kwargs = { weights_path: path };
  const body = { method: 'reload_weights', args: [], kwargs, timeout: timeoutMs / 1000 };
  await http.tell('/collective_rpc', { body, timeoutMs });
}

/** Every worker says which version was pushed to it last, by its extension (python/rollcall_torch/vllm_extension.py). */
export async function checkWorkersHave(http: HttpClient, version: number): Promise<void> {
  const path = '/collective_rpc';
  const { status, text } = await http.call(path, { body: { method: 'rollcall_weights_version' } });
  if (status !== 200) throw new HttpStatusError(http.url, path, status, text);
  const versions = http.parse<{ results: unknown[] }>(path, text).results.flat();
  if (versions.length > 0 && versions.every((had) => had === version)) return;
  throw new EngineError(
    `${http.url} has version ${versions.map((had) => had ?? 'unknown').join(', ')} of the weights; ${version} was pushed`,
  );
}

export async function dropPrefixCache(http: HttpClient): Promise<void> {
  const flush = '/reset_prefix_cache?reset_running_requests=true';
  const { status, text } = await http.call(flush);
  if (status !== 200) throw new HttpStatusError(http.url, flush, status, text);
  if (/"success"\s*:\s*false/.test(text))
    // older ones say nothing
    throw new EngineError(`${http.url} did not drop its cache of older weights`);
}

/**
 * What the encoder made of images. When weights are loaded vLLM 0.32 drops it in the workers alone: its scheduler still counts on
 * it, and the next request with such an image ends the engine.
 */
export const dropEncodedImages = (http: HttpClient): Promise<void> =>
  tellIfKnown(http, '/reset_encoder_cache');

/** vLLM 0.23 has no such call, and its replies do not say their version. */
export const tellVersion = (http: HttpClient, version: number): Promise<void> =>
  tellIfKnown(http, '/update_weight_version', { new_version: String(version) });

async function tellIfKnown(http: HttpClient, path: string, body?: object): Promise<void> {
  const { status, text } = await http.call(path, body && { body });
  if (status !== 200 && status !== 404) throw new HttpStatusError(http.url, path, status, text);
}
