/** Services that tools, simulated users and judges ask: one limiter for all who are the same client to them. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, type Reward, reward, rollout, toolLoop } from 'rollcall';
import { judgeReward } from 'rollcall/rewards';
import { chatService, requestLimiter } from 'rollcall/services';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { toolsFromConfig } from 'rollcall/tools';
import { loadInteractionFile } from 'rollcall/users';
import { expect, onTestFinished, test } from 'vitest';

const { tokenizer, format } = byteModel();

/** Answers as a retrieval server, a sandbox server and an LLM; knows how many asked at once. */
async function service(answerMs = 0, statuses: readonly number[] = []) {
  const seen = { paths: [] as string[], atOnce: 0, most: 0 };
  const answers: Record<string, object> = {
    '/retrieve': { result: [[{ document: { contents: 'Rome\nRome is old.' } }]] },
    '/run_code': { run_result: { status: 'Finished', stdout: '42\n', stderr: '' } },
    '/v1/chat/completions': { choices: [{ message: { content: 'Score: 5 [DONE]' } }] },
  };
  const server = createServer((request, response) => {
    const status = statuses[seen.paths.length] ?? 200;
    seen.paths.push(request.url!);
    seen.most = Math.max(seen.most, ++seen.atOnce);
    setTimeout(() => {
      seen.atOnce--;
      response.writeHead(status).end(JSON.stringify(answers[request.url!]));
    }, answerMs);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const attempt = (agent: Agent, reply: string, more: object = {}, rewards?: readonly Reward[]) =>
  rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 4,
    step: 1,
    agent,
    server: scriptedEngine({ tokenizer, reply: ({ turn }) => (turn === 0 ? reply : 'done') }),
    format,
    rewards: rewards ?? [reward('one', () => 1)],
    seed: 1,
    failures: { retries: 0, tolerateShare: 1 },
    ...more,
  });

const call = (name: string, given: object) =>
  `<tool_call>${JSON.stringify({ name, arguments: given })}</tool_call>`;
const SEARCH = call('search', { query_list: ['Rome'] });
const RUN = call('code_interpreter', { code: 'print(6 * 7)' });

const toolsOf = async (url: string, limits: object) =>
  (
    await toolsFromConfig(
      [
        { class_name: 'SearchTool', config: { retrieval_service_url: `${url}/retrieve`, ...limits } },
        { class_name: 'SandboxFusionTool', config: { sandbox_fusion_url: `${url}/run_code`, ...limits } },
      ],
      { directory: '.', source: 'here' },
    )
  ).tools;

async function userOf(url: string, limits: object) {
  const file = join(await mkdtemp(join(tmpdir(), 'rollcall-limits-')), 'users.yaml');
  const config = JSON.stringify({ url: `${url}/v1`, model: 'user', ...limits });
  await writeFile(file, `interaction: [{class_name: LlmInteraction, config: ${config}}]`);
  return (await loadInteractionFile(file)).llm!;
}

test('a search, a code tool and a simulated user that configuration names share what one host allows', async () => {
  const { url, seen } = await service(20);
  const limits = { max_concurrent: 1 };
  const tools = await toolsOf(url, limits);
  const interaction = await userOf(url, limits);
  const groups = await Promise.all([
    attempt(toolLoop({ prompt: 'go', tools }), SEARCH),
    attempt(toolLoop({ prompt: 'go', tools }), RUN),
    attempt(toolLoop({ prompt: 'go', userOf: () => ({ interaction, kwargs: {} }) }), 'hm'),
  ]);
  const ends = groups.flatMap(([group]) => group!.attempts.map(({ trajectory }) => trajectory.end.kind));
  expect(ends).toEqual(ends.map(() => 'completed'));
  expect(seen.paths).toHaveLength(12);
  expect(new Set(seen.paths).size).toBe(3);
  expect(seen.most).toBe(1);
});

test('a judge, and whoever is given the same limiter, share it; without one all ask at once', async () => {
  for (const [limits, most] of [
    [requestLimiter({ concurrency: 2 }), 2],
    [{}, 8],
  ] as const) {
    const { url, seen } = await service(40);
    const judge = (name: string) =>
      judgeReward({ name, service: chatService({ url: `${url}/v1`, model: name, limits }), rubric: name });
    const texts = ['a', 'b', 'c', 'd'];
    const [group] = await attempt(
      toolLoop({ prompt: 'go' }),
      'x',
      {
        server: scriptedEngine({
          tokenizer,
          reply: ({ request }) => texts[Number(/attempt-(\d+)/.exec(request.id)![1])]!,
        }),
      },
      [judge('one'), judge('two')],
    );
    expect(group!.attempts.map((one) => one.reward)).toEqual([1, 1, 1, 1]);
    expect(seen.paths).toHaveLength(8);
    expect(seen.most).toBe(most);
  }
});

test.each([
  ['requests', { max_rpm: 3 }],
  ['tokens', { max_tpm: 3000, estimated_tokens_per_request: 1000 }],
])('more than so many %s a minute wait, and a run that is stopped waits no longer', async (_, limits) => {
  const { url, seen } = await service();
  const tools = await toolsOf(url, limits);
  const stop = new AbortController();
  const asked = attempt(toolLoop({ prompt: 'go', tools }), SEARCH, { signal: stop.signal });
  await expect.poll(() => seen.paths.length, { timeout: 20_000 }).toBe(3);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(seen.paths).toHaveLength(3);
  stop.abort('enough');
  const [group] = await asked;
  expect(group!.attempts.map(({ trajectory }) => trajectory.end.kind).sort()).toEqual([
    'cancelled',
    'completed',
    'completed',
    'completed',
  ]);
});

test('a service that says it is asked too often is asked again, and the model learns nothing of it', async () => {
  const { url, seen } = await service(0, [429]);
  const tools = await toolsOf(url, {});
  const [group] = await attempt(toolLoop({ prompt: 'go', tools }), RUN, { attempts: 1 });
  expect(group!.attempts[0]!.trajectory.turns[0]!.toolRuns[0]!.result).toBe('42\n');
  expect(seen.paths).toHaveLength(2);
});

test('a limit that is no number above 0 is an error before the start', async () => {
  await expect(toolsOf('http://127.0.0.1:1', { max_rpm: 'many' })).rejects.toThrow(
    'config.max_rpm is "many"; it is a number above 0',
  );
  await expect(userOf('http://127.0.0.1:1', { max_concurrent: 0 })).rejects.toThrow(
    'config.max_concurrent is 0',
  );
});
