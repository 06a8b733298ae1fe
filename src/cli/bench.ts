import { setMaxListeners } from 'node:events';
import type { Command } from 'commander';
import pc from 'picocolors';
import { ConfigError } from '../errors.ts';
import { type Gateway, gateway } from '../gateway/gateway.ts';
import { ENGINE_NAMES, engineNamed } from '../inference/engines.ts';
import { realClock, sleep } from '../lib/clock.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { createRandom, hashSeed } from '../lib/random.ts';
import { semaphore } from '../lib/semaphore.ts';
import { apiKeyOption } from './api-key.ts';
import { number, whole, wholes } from './number.ts';

interface BenchFlags {
  readonly url: readonly string[];
  readonly engine: string;
  readonly turns: readonly number[];
  readonly trajectories: number;
  readonly concurrency: number;
  readonly promptTokens: number;
  readonly replyTokens: number;
  readonly resultTokens: number;
  readonly toolMs: number;
  readonly vocabulary?: number;
  readonly apiKey?: string;
  readonly json?: boolean;
}

export function registerBench(program: Command): void {
  program
    .command('bench')
    .description('measure what a run depends on')
    .command('servers')
    .description('measure trajectories a second on your servers, at 1, 3 and 5 turns')
    .requiredOption('--url <url...>', 'such as http://127.0.0.1:30000')
    .option('--engine <name>', ENGINE_NAMES.join(', '), 'sglang')
    .option('--turns <list>', 'turns of a trajectory, a measurement each', wholes(1), [1, 3, 5])
    .option('--trajectories <n>', 'in each measurement; four of each share a prompt', whole(1), 256)
    .option('--concurrency <n>', 'in progress at once, over all servers', whole(1), 128)
    .option('--prompt-tokens <n>', 'of the first prompt', whole(1), 512)
    .option('--reply-tokens <n>', 'of a reply at most; a model may end earlier', whole(1), 128)
    .option('--result-tokens <n>', 'of what answers a reply', whole(0), 64)
    .option('--tool-ms <n>', 'between a reply and the next turn', number(0), 0)
    .option(
      '--vocabulary <n>',
      'ids below it are used; default those that the server makes of a text',
      whole(32),
    )
    .addOption(apiKeyOption())
    .option('--json', 'one JSON object a measurement')
    .addHelpText(
      'after',
      '\nPrompts are random tokens: what is measured is the servers, their caches and the way to them, not a model.' +
        '\nExample: rollcall bench servers --url http://gpu-1:30000 http://gpu-2:30000 --tool-ms 500',
    )
    .action(benchServers);
}

async function benchServers(flags: BenchFlags): Promise<void> {
  const engine = engineNamed(flags.engine, '--engine');
  const { apiKey } = flags;
  const servers = flags.url.map((url) => engine.connect({ url, apiKey }));
  const front = gateway(servers, { log: (line) => process.stderr.write(`${line}\n`) });
  const stop = new AbortController();
  setMaxListeners(0, stop.signal); // every request listens
  const onSignal = () => stop.abort(new ConfigError('interrupted'));
  process.once('SIGINT', onSignal);
  try {
    const { model, vocabulary, contextTokens } = await front.info();
    const ids = await usableIds(servers[0]!, flags.vocabulary ?? vocabulary);
    const longest = Math.max(...flags.turns);
    const needed = flags.promptTokens + longest * flags.replyTokens + (longest - 1) * flags.resultTokens;
    if (needed > contextTokens) {
      throw new ConfigError(
        `${longest} turns need ${needed} tokens, and ${model} has ${contextTokens}; use less of --turns, --prompt-tokens, ` +
          '--reply-tokens or --result-tokens',
      );
    }
    if (!flags.json) console.log(`${model} on ${flags.url.length} servers\n${header()}`);
    for (const turns of flags.turns) {
      const measured = await measure(front, { ...flags, turns }, ids, stop);
      console.log(flags.json ? JSON.stringify(measured) : row(measured));
    }
  } finally {
    process.off('SIGINT', onSignal);
    await front.close();
  }
}

interface Measured {
  readonly turns: number;
  readonly trajectories: number;
  readonly failed: number;
  readonly seconds: number;
  readonly trajectoriesPerSecond: number;
  readonly tokensPerSecond: number;
  readonly tokensPerReply: number;
  readonly turnP50Seconds: number;
  readonly turnP99Seconds: number;
  /** Share of prompt tokens that were in a cache; undefined where servers do not say. */
  readonly cached?: number;
}

/** Below this an id may be a special token. */
const FIRST_ID = 10;
/** Varied text, so that a tokenizer makes many different ids from it. */
const TEXT = `
The quick brown fox jumps over the lazy dog; 0123456789 = 3.14159 + "quoted" (text) [list] {set} <tag> #1 @home $5 50% a&b *
function add(first, second) { return first + second; } // naïve café, Straße, ¿qué?, 東京, 한국, Привет, שלום, مرحبا, 😀
ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz: how many apples does Anna have when she buys four more than she sold?
`;

/** An id that a model does not have makes vLLM refuse the request, and ends SGLang altogether. */
async function usableIds(
  server: { tokenize(text: string): Promise<readonly number[] | undefined> },
  vocabulary: number,
): Promise<readonly number[]> {
  if (vocabulary > 0) return Array.from({ length: vocabulary - FIRST_ID }, (_, at) => FIRST_ID + at);
  const ids = await server.tokenize(TEXT);
  if (ids) return [...new Set(ids)];
  throw new ConfigError('the server has no /tokenize, which would say what ids it knows; give --vocabulary');
}

async function measure(
  front: Gateway,
  flags: Omit<BenchFlags, 'turns'> & { readonly turns: number },
  usable: readonly number[],
  stop: AbortController,
): Promise<Measured> {
  const { turns, trajectories, promptTokens, replyTokens, resultTokens, toolMs } = flags;
  const { signal } = stop;
  const clock = realClock();
  const slots = semaphore(flags.concurrency);
  const seconds: number[] = [];
  const seen = { sampled: 0, prompt: 0, cached: 0, saysCached: false, failed: 0 };
  const randomIds = (count: number, ...seed: (string | number)[]) => {
    const random = createRandom(hashSeed('bench', ...seed));
    return Array.from({ length: count }, () => usable[random.integer(usable.length)]!);
  };
  const trajectory = async (number: number) => {
    const name = `bench-${turns}/${number}`;
    const ids = randomIds(promptTokens, turns, Math.floor(number / 4));
    for (let turn = 1; turn <= turns; turn++) {
      const began = clock.now();
      const reply = await front.generate({
        id: `${name}/${turn}/`,
        trajectory: name,
        prompt: Int32Array.from(ids),
        sampling: { ...PLAIN_SAMPLING, maxTokens: replyTokens, stopIds: [], seed: hashSeed(name, turn) },
        signal,
      });
      signal.throwIfAborted();
      seconds.push((clock.now() - began) / 1000);
      seen.sampled += reply.ids.length;
      seen.prompt += reply.promptTokens;
      seen.cached += reply.cachedTokens ?? 0;
      seen.saysCached ||= reply.cachedTokens !== undefined;
      if (turn === turns) break;
      ids.push(...reply.ids, ...randomIds(resultTokens, name, turn));
      if (toolMs > 0) await sleep(clock, toolMs, signal);
    }
    front.ended(name);
  };
  const began = clock.now();
  await Promise.all(
    Array.from({ length: trajectories }, (_, number) =>
      slots.run(() =>
        trajectory(number).catch((error: unknown) => {
          if (front.servers().length === 0) stop.abort(error); // none is left to measure
          signal.throwIfAborted();
          if (seen.failed++ === 0) process.stderr.write(`${(error as Error).message}\n`);
        }),
      ),
    ),
  );
  const elapsed = (clock.now() - began) / 1000;
  seconds.sort((one, other) => one - other);
  const quantile = (share: number) => seconds[Math.floor(share * (seconds.length - 1))] ?? Number.NaN;
  return {
    turns,
    trajectories,
    failed: seen.failed,
    seconds: elapsed,
    trajectoriesPerSecond: (trajectories - seen.failed) / elapsed,
    tokensPerSecond: seen.sampled / elapsed,
    tokensPerReply: seen.sampled / Math.max(1, seconds.length),
    turnP50Seconds: quantile(0.5),
    turnP99Seconds: quantile(0.99),
    ...(seen.saysCached ? { cached: seen.cached / seen.prompt } : {}),
  };
}

const COLUMNS: readonly (readonly [name: string, of: (measured: Measured) => string])[] = [
  ['turns', ({ turns }) => String(turns)],
  ['trajectories/s', ({ trajectoriesPerSecond }) => trajectoriesPerSecond.toFixed(2)],
  ['tokens/s', ({ tokensPerSecond }) => tokensPerSecond.toFixed(0)],
  ['tokens/reply', ({ tokensPerReply }) => tokensPerReply.toFixed(0)],
  ['turn p50', ({ turnP50Seconds }) => `${turnP50Seconds.toFixed(2)} s`],
  ['turn p99', ({ turnP99Seconds }) => `${turnP99Seconds.toFixed(2)} s`],
  ['cached', ({ cached }) => (cached === undefined ? '?' : `${(100 * cached).toFixed(0)} %`)],
  ['failed', ({ failed }) => String(failed)],
];

const header = () => pc.bold(COLUMNS.map(([name]) => name.padStart(Math.max(9, name.length))).join('  '));
const row = (measured: Measured) =>
  COLUMNS.map(([name, of]) => of(measured).padStart(Math.max(9, name.length))).join('  ');
