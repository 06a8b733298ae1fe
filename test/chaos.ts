/**
 * Many trajectories over servers that are slow, cut connections, answer with garbage, refuse, hang, die and come back,
 * at random, while weights are sent. Whatever happens, each ends once, in a declared way, with sound tokens, and nothing
 * is left running. Throws what does not hold.
 */
import { fileURLToPath } from 'node:url';
import { agent, reward, rollout, type Trajectory } from 'rollcall';
import { gateway } from 'rollcall/scheduling';
import { byteModel } from 'rollcall/testing';
import { SglangServer } from '../src/inference/sglang.ts';
import { VllmServer } from '../src/inference/vllm.ts';
import { realClock, sleep } from '../src/lib/clock.ts';
import { createRandom, hashSeed } from '../src/lib/random.ts';
import { type StartedServer, startProcess } from './stand-ins/start.ts';

export interface ChaosOptions {
  readonly trajectories: number;
  readonly seed: number;
  /** Share of requests that meet trouble. */
  readonly trouble: number;
  /** Between two deaths of a server. */
  readonly killEveryMs: number;
}

export interface ChaosResult {
  readonly ends: Readonly<Record<string, number>>;
  readonly replies: number;
  readonly requests: number;
  readonly failedRequests: number;
  readonly kills: number;
  readonly updates: number;
  readonly seconds: number;
}

const TURNS = 3;
const TOKENS_PER_REPLY = 64;
const script = fileURLToPath(new URL('./stand-ins/chaotic.mjs', import.meta.url));
const clock = realClock();
const { format } = byteModel();

export async function chaos({
  trajectories,
  seed,
  trouble,
  killEveryMs,
}: ChaosOptions): Promise<ChaosResult> {
  const before = resources();
  const random = createRandom(seed);
  const engines = ['sglang', 'sglang', 'vllm'] as const;
  const start = (engine: string, port = 0) =>
    startProcess([script, JSON.stringify({ engine, trouble, seed: random.integer(2 ** 31) })], {
      PORT: String(port),
    });
  const running: StartedServer[] = await Promise.all(engines.map((engine) => start(engine)));
  const front = gateway(
    running.map(({ url }, at) =>
      engines[at] === 'vllm' ? new VllmServer({ url }) : new SglangServer({ url }),
    ),
    { tries: 8, backoffMs: 5, longestBackoffMs: 200, secondsPerRequest: 4, whileUpdating: 'wait' },
  );
  const began = clock.now();
  const over = new AbortController();
  const stopped = over.signal;

  let kills = 0;
  const killer = repeat(stopped, async () => {
    await sleep(clock, killEveryMs * (0.5 + random.next()), stopped);
    const at = random.integer(running.length);
    const { url } = running[at]!;
    await running[at]!.stop('SIGKILL');
    kills++;
    await sleep(clock, 300 * random.next(), stopped).catch(() => {});
    running[at] = await start(engines[at]!, Number(new URL(url).port));
  });
  let version = 0;
  let updates = 0;
  const updater = repeat(stopped, async () => {
    await sleep(clock, 2000, stopped);
    // None may take them; the next update finds those that are back.
    await front.update({ kind: 'disk', version: ++version, path: `/weights/${version}` }).then(
      () => updates++,
      () => {},
    );
  });

  const ended = new Map<string, number>();
  const all: Trajectory[] = [];
  const cancelled = new AbortController();
  const roll = async (name: string, share: number, more: { secondsPerTrajectory?: number }) => {
    const groups = await rollout({
      name,
      tasks: Array.from({ length: Math.ceil((share * trajectories) / 4) }, (_, index) => ({
        index,
        task: {},
      })),
      attempts: 4,
      step: 1,
      seed,
      agent: agent(async ({ model, attempt }) => {
        const chat = model.chat();
        for (let turn = 0; turn < TURNS; turn++) {
          chat.user(`${attempt}: go on (${turn}).`);
          await chat.sample();
        }
      }),
      rewards: [reward('length', ({ trajectory }) => trajectory.text.length)],
      // Half of the requests stream, which is cut in other ways.
      server: {
        generate: (request) =>
          front.generate(
            hashSeed('stream', request.id) % 2 === 0 ? { ...request, onTokens: () => {} } : request,
          ),
      },
      format,
      limits: { turns: TURNS, tokensPerReply: TOKENS_PER_REPLY, tokensPerTrajectory: 4096, ...more },
      concurrency: 128,
      failures: { tolerateShare: 1 },
      ...(name === 'cancelled' ? { signal: cancelled.signal } : {}),
      onTrajectory: ({ trajectory: { id } }) => ended.set(id, (ended.get(id) ?? 0) + 1),
    });
    all.push(...groups.flatMap(({ attempts }) => attempts.map(({ trajectory }) => trajectory)));
  };
  const cancel = sleep(clock, 400).then(() => cancelled.abort('enough'));
  await Promise.all([
    roll('plain', 0.8, {}),
    roll('hurried', 0.1, { secondsPerTrajectory: 0.2 }),
    roll('cancelled', 0.1, {}),
    cancel,
  ]);

  over.abort();
  await Promise.all([killer, updater]);
  await until('requests are in flight', () => total(front.status(), ({ inFlight }) => inFlight), 8000);
  const open = async (url: string) => Number(await (await fetch(`${url}/stand-in/open`)).text());
  for (const { url } of running) await until(`requests are open at ${url}`, () => open(url), 8000);
  const status = front.status();
  await front.close();
  await Promise.all(running.map((server) => server.stop()));
  await until('handles are left', () => grown(before, resources()), 8000);

  const twice = [...ended].find(([, times]) => times !== 1);
  if (twice) throw new Error(`${twice[0]} ended ${twice[1]} times`);
  if (ended.size !== all.length) throw new Error(`${all.length} trajectories, ${ended.size} ends`);
  return {
    ends: countBy(all, ({ end }) => describe(end)),
    replies: all.reduce((sum, trajectory) => sum + checkReplies(trajectory), 0),
    requests: total(status, ({ requests }) => requests),
    failedRequests: total(status, ({ failures }) => failures),
    kills,
    updates,
    seconds: (clock.now() - began) / 1000,
  };
}

function describe(end: Trajectory['end']): string {
  switch (end.kind) {
    case 'completed':
      return 'completed';
    case 'truncated':
      return `truncated (${end.why})`;
    case 'cancelled':
      return 'cancelled';
    case 'failed':
      if (end.boundary !== 'infrastructure') throw new Error(`failed (${end.boundary}): ${end.message}`);
      return 'failed (infrastructure)';
  }
}

/** Every sampled token is what a sound server answers to what stands before it. */
function checkReplies({ id, end, segments, turns }: Trajectory): number {
  if (end.kind === 'completed' && turns.length !== TURNS) throw new Error(`${id} has ${turns.length} turns`);
  for (const { segment, start, end: stop, finish } of turns) {
    const { ids, logprobs } = segments[segment]!;
    const made = ids.subarray(0, stop);
    // Several servers together may fill what a reply can have.
    const isFull = finish === 'length' && stop - start === TOKENS_PER_REPLY;
    if (!isSound(made, start, finish === 'abort' || isFull)) {
      const sound = soundReply(ids.subarray(0, start), format.stopIds[0]!);
      throw new Error(`${id} accepted [${made.subarray(start)}]; sound is [${sound}]`);
    }
    for (const [at, token] of made.subarray(start).entries()) {
      if (logprobs[start + at] !== -((token % 7) + 1) / 8) throw new Error(`${id} has a wrong log-prob`);
    }
  }
  return turns.length;
}

/** A server that dies in the middle of a reply is followed by one that is asked to continue what was told so far. */
function isSound(ids: Int32Array, start: number, isPartial: boolean): boolean {
  const reply = soundReply(ids.subarray(0, start), format.stopIds[0]!);
  const rest = ids.subarray(start);
  let alike = 0;
  while (alike < rest.length && rest[alike] === reply[alike]) alike++;
  if (alike === rest.length && (isPartial || alike === reply.length)) return true;
  for (let told = alike; told > 0; told--) if (isSound(ids, start + told, isPartial)) return true;
  return false;
}

/** As test/stand-ins/chaotic.mjs answers. */
function soundReply(prompt: Int32Array, stopId: number): number[] {
  let hash = 2166136261;
  for (const id of prompt) hash = Math.imul(hash ^ id, 16777619) >>> 0;
  const letters = Array.from({ length: 4 + (hash % 29) }, (_, at) => 97 + (((hash >>> (at % 24)) + at) % 26));
  return [...letters, stopId];
}

async function repeat(stopped: AbortSignal, act: () => Promise<void>): Promise<void> {
  while (!stopped.aborted) {
    await act().catch((error: unknown) => {
      if (!stopped.aborted) throw error;
    });
  }
}

/** Waits until there are none; throws with how many are left after the time. */
async function until(what: string, count: () => number | Promise<number>, milliseconds: number) {
  const began = clock.now();
  for (;;) {
    const left = await count();
    if (left === 0) return;
    if (clock.now() - began > milliseconds)
      throw new Error(`${left} ${what} after the last trajectory ended`);
    await sleep(clock, 50);
  }
}

/** Sockets, timers and processes that keep Node alive. */
function resources(): Readonly<Record<string, number>> {
  return countBy(process.getActiveResourcesInfo(), (name) => name);
}

function grown(before: Readonly<Record<string, number>>, after: Readonly<Record<string, number>>): number {
  const kinds = ['TCPSocketWrap', 'TCPSERVERWRAP', 'Timeout', 'ProcessWrap', 'PipeWrap'];
  return kinds.reduce((sum, kind) => sum + Math.max(0, (after[kind] ?? 0) - (before[kind] ?? 0)), 0);
}

function countBy<T>(items: readonly T[], key: (item: T) => string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const item of items) counts[key(item)] = (counts[key(item)] ?? 0) + 1;
  return counts;
}

function total<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}
