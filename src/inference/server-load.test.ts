import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { HttpClient } from './http/client.ts';
import { sglangLoad, vllmLoad } from './server-load.ts';

/** A server that says the same to everyone. */
async function saying<R>(
  pages: Readonly<Record<string, string>>,
  ask: (http: HttpClient) => Promise<R>,
): Promise<R> {
  const server = createServer((request, reply) => {
    const page = pages[request.url ?? ''];
    reply.writeHead(page === undefined ? 404 : 200).end(page);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const http = new HttpClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  try {
    return await ask(http);
  } finally {
    await http.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test('the ranks of an SGLang server are one load', async () => {
  const loads = [
    { dp_rank: 0, num_running_reqs: 3, num_waiting_reqs: 1, token_usage: 0.5, max_total_num_tokens: 1000 },
    { dp_rank: 1, num_running_reqs: 5, num_waiting_reqs: 0, token_usage: 0.7, max_total_num_tokens: 1000 },
  ];
  const load = await saying({ '/v1/loads': JSON.stringify({ loads }) }, (http) => sglangLoad(http));
  expect(load).toEqual({ running: 8, queued: 1, kvUse: 0.6, kvTokens: 2000 });
});

test('the metrics of a vLLM server are one load', async () => {
  const metrics = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:num_preemptions_total{engine="0",model_name="m"} 4.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 200.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 150.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="661"} 1.0
`;
  expect(await saying({ '/metrics': metrics }, (http) => vllmLoad(http))).toEqual({
    running: 7,
    queued: 2,
    kvUse: 0.25,
    kvTokens: 10_576,
    preemptions: 4,
    cacheHits: 0.75,
  });
});

test('a server that does not tell has no load', async () => {
  expect(await saying({}, (http) => sglangLoad(http))).toBeUndefined();
  expect(await saying({}, (http) => vllmLoad(http))).toBeUndefined();
  expect(await saying({ '/metrics': 'other_metric 1\n' }, (http) => vllmLoad(http))).toBeUndefined();
});
