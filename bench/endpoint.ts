/**
 * What the endpoint adds to a turn. 2,000 trajectories at once take 4 turns each against an engine that only waits: once with
 * a chat in this process, once by Chat Completions over HTTP, whose clients are another process. The gateway's own
 * processor time per turn, in the same run and with the same number of tokens, is the measure.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { readFlags } from '../scripts/flags.ts';
import { atMost, conclude, holds } from '../scripts/verdict.ts';
import { ENDPOINT_RULES } from '../src/agent/endpoint.ts';
import type { Endpoint } from '../src/exports/agents.ts';
import { type Agent, type AgentContext, agent, rollout } from '../src/index.ts';
import { openDoor } from '../src/serve/endpoint/door.ts';
import { byteModel, scriptedEngine } from '../testing/index.ts';
import type { ClientJob, ClientResult } from './endpoint/client.ts';
import type { GatewayResult } from './gateway/job.ts';

const flags = readFlags(
  { trajectories: '2000', turns: '4', rounds: '3' },
  { trajectories: '500', rounds: '2' },
);
const [TRAJECTORIES, TURNS] = [Number(flags.trajectories), Number(flags.turns)];
const PROMPT_TOKENS = 2000;
const REPLY_TOKENS = 300;
/** Long enough that all trajectories are open at once. */
const ENGINE_MS = 2 * TRAJECTORIES;

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const { tokenizer, format } = byteModel();
const prompt = 'p'.repeat(PROMPT_TOKENS);
const reply = 'r'.repeat(REPLY_TOKENS - 1);

interface Measured {
  readonly cpuMicroseconds: number;
  readonly p50AddedMs: number;
  readonly p99AddedMs: number;
}

/** All trajectories at once; `times` gets the milliseconds of each turn. */
async function measure(
  trajectories: number,
  run: (times: number[], number: number) => Agent['run'],
  door = openDoor(ENDPOINT_RULES),
): Promise<Measured> {
  const times: number[] = [];
  const server = scriptedEngine({
    tokenizer,
    reply: () => reply,
    firstTokenMs: ENGINE_MS,
    contextTokens: 100_000,
  });
  const cpu = process.cpuUsage();
  const groups = await rollout({
    tasks: Array.from({ length: trajectories }, (_, index) => ({ index, task: {} })),
    attempts: 1,
    step: 1,
    agent: agent((context) => run(times, context.taskIndex)(context)),
    server,
    format,
    rewards: [],
    seed: 1,
    concurrency: trajectories,
    door,
    limits: { tokensPerTrajectory: 100_000 },
  });
  const { user, system } = process.cpuUsage(cpu);
  for (const { attempts } of groups) {
    const { end, segments, turns } = attempts[0]!.trajectory;
    if (end.kind !== 'completed' || segments.length !== 1 || turns.length !== TURNS) {
      throw new Error(
        `a trajectory ended as ${JSON.stringify(end)} with ${segments.length} segments, ${turns.length} turns`,
      );
    }
  }
  const added = times.map((milliseconds) => milliseconds - ENGINE_MS).sort((a, b) => a - b);
  return {
    cpuMicroseconds: (user + system) / times.length,
    p50AddedMs: added[Math.floor(added.length * 0.5)]!,
    p99AddedMs: added[Math.floor(added.length * 0.99)]!,
  };
}

const inProcess = (trajectories: number) =>
  measure(trajectories, (times) => async ({ model }) => {
    const chat = model.chat({ messages: [{ role: 'user', content: prompt }] });
    for (let turn = 0; turn < TURNS; turn++) {
      const asked = performance.now();
      await chat.sample();
      times.push(performance.now() - asked);
      chat.user('go on');
    }
  });

const start = (...words: readonly string[]) =>
  spawn(process.execPath, ['--import', path('../bin/register.js'), ...words], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });

async function end(child: ChildProcess): Promise<void> {
  child.stdin!.end();
  if (child.exitCode === null) await once(child, 'exit');
}

/** Keys that open nothing after the end of their attempts. */
let refused = 0;

async function overHttp(trajectories: number): Promise<Measured> {
  const clients = start(path('endpoint/client.ts'));
  const waiting = new Map<number, (result: ClientResult) => void>();
  createInterface({ input: clients.stdout! }).on('line', (line) => {
    const result = JSON.parse(line) as ClientResult;
    waiting.get(result.number)!(result);
  });
  const door = openDoor(ENDPOINT_RULES);
  const opened: Pick<Endpoint, 'fetch' | 'openai' | 'apiKey'>[] = [];
  const client =
    (times: number[], number: number) =>
    async ({ endpoint }: AgentContext) => {
      const { openai, apiKey, fetch } = await endpoint();
      opened.push({ openai, apiKey, fetch });
      const done = new Promise<ClientResult>((resolve) => waiting.set(number, resolve));
      const job: ClientJob = { number, openai, apiKey, prompt, turns: TURNS };
      clients.stdin!.write(`${JSON.stringify(job)}\n`);
      times.push(...(await done).milliseconds);
    };
  const measured = await measure(trajectories, client, door);
  await end(clients);
  for (const { fetch, openai, apiKey } of opened) {
    const headers = { authorization: `Bearer ${apiKey}` };
    const { status } = await fetch(`${openai}/chat/completions`, { method: 'POST', headers, body: '{}' });
    if (status === 409) refused++;
  }
  await door.close();
  return measured;
}

/** Processor time of the gateway per turn, with as many tokens, against `bench gateway`'s stand-in server. */
async function gatewayMicroseconds(): Promise<number> {
  const standIn = spawn(process.execPath, [path('gateway/stand-in.mjs'), String(REPLY_TOKENS)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: standIn.stdout }), 'line')) as [string];
  const client = start(path('gateway/client.ts'));
  const results = createInterface({ input: client.stdout! })[Symbol.asyncIterator]();
  const job = {
    urls: [`http://127.0.0.1:${/\d+/.exec(line)![0]}`],
    latencyMs: 0,
    trajectories: Math.min(200, TRAJECTORIES),
    turns: TURNS,
    promptTokens: PROMPT_TOKENS,
    replyTokens: REPLY_TOKENS,
  };
  let microseconds = 0;
  for (let round = 0; round < 2; round++) {
    client.stdin!.write(`${JSON.stringify(job)}\n`);
    const { turns, cpuSeconds } = JSON.parse(
      ((await results.next()) as { value: string }).value,
    ) as GatewayResult;
    microseconds = (1e6 * cpuSeconds) / turns; // the first round warms up
  }
  await end(client);
  standIn.kill();
  return microseconds;
}

const open = () =>
  process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap' || name === 'TCPSocketWrap')
    .length;

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
await inProcess(100);
await overHttp(100);
refused = 0;
const rounds: { near: Measured; far: Measured; gateway: number }[] = [];
for (let round = 0; round < Number(flags.rounds); round++) {
  const gateway = await gatewayMicroseconds();
  const near = await inProcess(TRAJECTORIES);
  const far = await overHttp(TRAJECTORIES);
  rounds.push({ near, far, gateway });
  console.log(JSON.stringify({ gatewayMicroseconds: gateway, inProcess: near, endpoint: far }));
}
const added = median(rounds.map(({ near, far }) => far.cpuMicroseconds - near.cpuMicroseconds));
const gateway = median(rounds.map((round) => round.gateway));
const latency = (which: 'p50AddedMs' | 'p99AddedMs') => median(rounds.map(({ far }) => far[which]));
conclude(
  [
    atMost("processor time that the endpoint adds to a turn, against the gateway's", added / gateway, 2),
    holds('no socket or server is open at the end', open() === 0, open()),
    holds(
      'no key opens anything after the end of its attempt',
      refused === TRAJECTORIES * rounds.length,
      `${refused} of ${TRAJECTORIES * rounds.length} are refused`,
    ),
  ],
  {
    trajectories: TRAJECTORIES,
    turns: TURNS,
    addedMicrosecondsPerTurn: Math.round(added),
    gatewayMicrosecondsPerTurn: Math.round(gateway),
    p50AddedMs: latency('p50AddedMs'),
    p99AddedMs: latency('p99AddedMs'),
    rounds,
  },
);
