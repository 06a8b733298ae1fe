/**
 * What a turn costs the process that holds all trajectories. `--python VENV/bin/python` names the peer's Python.
 * 10,000 trajectories open at once take 8 turns over two stand-in servers, whose latency keeps the client at half of its
 * measured capacity; the same loop in Python (asyncio, aiohttp; json and orjson) in the same run.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { readFlags } from '../scripts/flags.ts';
import { atLeast, atMost, conclude } from '../scripts/verdict.ts';
import type { GatewayJob, GatewayResult } from './gateway/job.ts';

const flags = readFlags(
  { trajectories: '10000', turns: '8', rounds: '3', python: 'python3', only: 'rollcall,json,orjson' },
  { trajectories: '2000', turns: '4', rounds: '1' },
);
const TRAJECTORIES = Number(flags.trajectories);
const SIZE = { turns: Number(flags.turns), promptTokens: 2000, replyTokens: 300 };
const LOAD = 0.5;

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** A process that answers one line of JSON to each. */
class Client {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor([program, ...words]: readonly [string, ...string[]]) {
    this.#process = spawn(program, words, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  }

  async ask(job: GatewayJob): Promise<GatewayResult> {
    this.#process.stdin!.write(`${JSON.stringify(job)}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('a client ended without a result');
    return JSON.parse(value) as GatewayResult;
  }

  async close(): Promise<void> {
    this.#process.stdin!.end();
    if (this.#process.exitCode === null) await once(this.#process, 'exit');
  }
}

function hasPython(): boolean {
  try {
    execFileSync(flags.python, ['-c', 'import aiohttp, orjson'], { stdio: 'ignore' });
    return true;
  } catch {
    console.log(
      `left out: ${flags.python} with aiohttp and orjson (pip install aiohttp orjson; --python PATH)`,
    );
    return false;
  }
}

const peer = path('peers/asyncio_gateway.py');
const COMMANDS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  rollcall: [process.execPath, '--import', path('../bin/register.js'), path('gateway/client.ts')],
  ...(hasPython() ? { json: [flags.python, peer, 'json'], orjson: [flags.python, peer, 'orjson'] } : {}),
};
const names = Object.keys(COMMANDS).filter((name) => flags.only.split(',').includes(name));

async function startStandIn() {
  const child = spawn(process.execPath, [path('gateway/stand-in.mjs'), String(SIZE.replyTokens)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface(child.stdout)) {
    return { url: `http://127.0.0.1:${/\d+/.exec(line)![0]}`, end: () => child.kill() };
  }
  throw new Error('a stand-in did not start');
}

const standIns = [await startStandIn(), await startStandIn()];
const urls = standIns.map(({ url }) => url);
const setLatency = (milliseconds: number) =>
  Promise.all(urls.map((url) => fetch(`${url}/latency/${milliseconds}`, { method: 'PUT' })));
const median = (numbers: readonly number[]) =>
  [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)]!;
const round = (value: number, digits = 2) => Number(value.toFixed(digits));

const perCore = new Map<string, number[]>(names.map((name) => [name, []]));
await setLatency(0);
for (let turn = 0; turn < Number(flags.rounds); turn++) {
  for (const name of names) {
    const client = new Client(COMMANDS[name]!);
    const job = { ...SIZE, urls, latencyMs: 0, trajectories: Math.min(200, TRAJECTORIES) };
    await client.ask(job); // warm
    const { turns, cpuSeconds } = await client.ask(job);
    await client.close();
    perCore.get(name)!.push(turns / cpuSeconds);
  }
}
const results: Record<string, object> = {};
const open: Record<string, number> = {};
for (const name of names) {
  const capacity = median(perCore.get(name)!);
  console.log(`${name}: ${capacity.toFixed(0)} turns a second of processor time when nothing waits`);
  const latencyMs = Math.round((1000 * TRAJECTORIES) / (capacity * LOAD));
  const client = new Client(COMMANDS[name]!);
  const warm = { ...SIZE, urls, latencyMs: 0, trajectories: Math.min(200, TRAJECTORIES) };
  await setLatency(0);
  await client.ask(warm);
  await setLatency(latencyMs);
  const told = await client.ask({ ...SIZE, urls, latencyMs, trajectories: TRAJECTORIES });
  await client.close();
  open[name] = told.turns / told.cpuSeconds;
  results[name] = {
    capacityTurnsPerCore: round(capacity, 0),
    turnsPerCore: round(open[name]!, 0),
    cpuMicrosecondsPerTurn: round((1e6 * told.cpuSeconds) / told.turns, 0),
    load: round(told.cpuSeconds / told.seconds),
    latencyMs,
    seconds: round(told.seconds, 1),
    p50AddedMs: round(told.p50AddedMs),
    p99AddedMs: round(told.p99AddedMs),
    maxAddedMs: round(told.maxAddedMs),
    loopDelayP99Ms: round(told.loopDelayP99Ms),
    bytesPerTrajectory: Math.round((told.peakBytes - told.tokenBytes) / TRAJECTORIES),
    tokenBytesPerTrajectory: Math.round(told.tokenBytes / TRAJECTORIES),
  };
  console.log(name, JSON.stringify(results[name]));
}
for (const { end } of standIns) end();
const against = (name: string) =>
  open['rollcall'] && open[name] ? round(open['rollcall'] / open[name]) : undefined;
const { p99AddedMs, bytesPerTrajectory } = (results['rollcall'] ?? {}) as Record<string, number>;
conclude(
  [
    atLeast('turns a second of processor time against asyncio with json', against('json'), 4.5),
    atMost('p99 of the time that a turn takes beyond its server, in ms', p99AddedMs, 50),
    atMost('bytes of a trajectory beyond ids and log-probs', bytesPerTrajectory, 60_000),
  ],
  {
    trajectories: TRAJECTORIES,
    ...SIZE,
    ratios: { turnsPerCore: against('json'), turnsPerCoreOrjson: against('orjson') },
    results,
  },
);
