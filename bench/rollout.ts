/**
 * Trajectories a second on a real server: batch-level turns, request-level turns and our scheduler, over the same draws, with
 * the bound and the simulator's forecast beside each. `npm run bench rollout` starts a vLLM on the CPU (`npm run prove vllm`
 * installs it); `npm run bench rollout -- --url http://gpu:8000 --engine vllm --model DIR` measures yours. It plays as many
 * trajectories as it expects to end within `--minutes`, up to `--trajectories`.
 */
import { readFlags } from '../scripts/flags.ts';
import { atLeast, atMost, conclude } from '../scripts/verdict.ts';
import { realClock } from '../src/lib/clock.ts';
import { hashSeed } from '../src/lib/random.ts';
import type { SimulatedTrajectory } from '../testing/index.ts';
import { asPlayed, boundSeconds, type Calibration, calibrate, forecast } from './rollout/calibrate.ts';
import { drawBatch } from './rollout/draw.ts';
import { openServer, SERVER_FLAGS } from './rollout/open-server.ts';
import { type Played, type PlayOptions, playBatch, SCHEDULERS } from './rollout/play.ts';

const flags = readFlags(
  {
    ...SERVER_FLAGS,
    trajectories: '256',
    minutes: '5',
    turns: '1,3,5',
    means: '0,0.5,2',
    /** With a prefix cache, without one (every prompt begins differently), or both. */
    cache: 'on,off',
    sigma: '0.6',
    'prompt-tokens': '64',
    'reply-tokens': '24',
    'result-tokens': '16',
    'max-batch': '64',
    share: '0.9',
    seed: '1',
  },
  { minutes: '2', turns: '1,3', means: '0,0.5', share: '0.5' },
);
const say = (line: string) => console.error(line);
const numbers = (text: string) => text.split(',').map(Number);
const clock = realClock();
const seed = Number(flags.seed);
/** Four attempts at each of four tasks: fewer say nothing. */
const FEWEST = 16;

/** What all schedulers play, beside each other. */
interface Case {
  readonly turns: number;
  readonly toolSeconds: number;
  readonly sharesPrefixes: boolean;
}

interface Cell extends Case {
  readonly options: Omit<PlayOptions, 'clock'>;
  readonly played: Played;
}

const CASES: readonly Case[] = flags.cache.split(',').flatMap((cache) =>
  numbers(flags.turns).flatMap((turns) =>
    (turns === 1 ? [0] : numbers(flags.means)).map((toolSeconds) => ({
      turns,
      toolSeconds,
      sharesPrefixes: isOn(cache),
    })),
  ),
);

function isOn(cache: string): boolean {
  if (cache === 'on' || cache === 'off') return cache === 'on';
  throw new Error(`--cache has ${JSON.stringify(cache)}; it takes on, off or on,off`);
}

const opened = await openServer(flags, say);
const server = opened.connect();
try {
  const calibration = await calibrate(server, {
    clock,
    vocabulary: opened.vocabulary,
    requests: Number(flags.trajectories),
    promptTokens: Number(flags['prompt-tokens']),
    replyTokens: 2 * Number(flags['reply-tokens']),
    maxBatch: Number(flags['max-batch']),
  });
  say(`calibrated: ${JSON.stringify(calibration)}`);
  const trajectories = await fitting(calibration);
  const cells: Cell[] = [];
  for (const one of CASES) {
    const plans = plansOf(one, trajectories);
    for (const scheduler of SCHEDULERS) {
      const options = optionsOf(one, scheduler);
      const played = await playBatch(server, plans, { ...options, clock });
      cells.push({ ...one, options, played });
      if (played.failure !== undefined) say(`${played.failed} failed: ${played.failure}`);
      const { turns, toolSeconds, sharesPrefixes } = one;
      say(
        `${turns} turns, tools ${toolSeconds} s, cache ${sharesPrefixes ? 'on' : 'off'}, ${scheduler}: ` +
          `${played.trajectoriesPerSecond.toFixed(2)} trajectories/s in ${played.seconds.toFixed(1)} s`,
      );
    }
  }
  await report(cells, calibration);
} finally {
  await server.close();
  await opened.stop();
}

function plansOf({ turns, toolSeconds }: Case, trajectories: number): SimulatedTrajectory[] {
  return drawBatch({
    trajectories,
    turns,
    toolSeconds,
    toolSigma: Number(flags.sigma),
    promptTokens: Number(flags['prompt-tokens']),
    replyTokens: Number(flags['reply-tokens']),
    resultTokens: Number(flags['result-tokens']),
    seed,
  });
}

/** Other tokens for each, so that none finds the prompts of the one before in the cache. */
function optionsOf({ turns, toolSeconds, sharesPrefixes }: Case, scheduler: PlayOptions['scheduler']) {
  const own = hashSeed(seed, scheduler, turns, toolSeconds, Number(sharesPrefixes));
  return { scheduler, seed: own, vocabulary: opened.vocabulary, sharesPrefixes };
}

/** The most trajectories, a power of two below `--trajectories`, with which all cases end in time by the forecast. */
async function fitting(calibration: Calibration): Promise<number> {
  for (let trajectories = Number(flags.trajectories); ; trajectories = Math.floor(trajectories / 2)) {
    let seconds = 0;
    for (const one of CASES) {
      const plans = plansOf(one, trajectories);
      for (const scheduler of SCHEDULERS)
        seconds += trajectories / (await forecast(plans, calibration, optionsOf(one, scheduler)));
    }
    say(`${trajectories} trajectories in each of ${CASES.length} cases: about ${Math.ceil(seconds)} s`);
    if (seconds <= 60 * Number(flags.minutes) || trajectories <= FEWEST) return trajectories;
  }
}

async function report(cells: readonly Cell[], measured: Calibration): Promise<void> {
  // The best rate that was seen at all: a bound is above everything that was measured.
  const rates = cells.map(({ played }) => played.tokensPerSecond);
  const saturatedTokensPerSecond = Math.max(measured.saturatedTokensPerSecond, ...rates);
  const calibration = { ...measured, saturatedTokensPerSecond };
  const rows = [];
  for (const [at, { turns, toolSeconds, sharesPrefixes, options, played }] of cells.entries()) {
    const batch = cells[at - SCHEDULERS.indexOf(options.scheduler)]!.played.trajectoriesPerSecond;
    const bound = played.trajectories.length / boundSeconds(played.trajectories, calibration);
    const expected = await forecast(played.trajectories.map(asPlayed), calibration, options);
    const row = {
      cache: sharesPrefixes ? 'on' : 'off',
      turns,
      tools: toolSeconds,
      scheduler: options.scheduler,
      perSecond: round(played.trajectoriesPerSecond),
      tokens: round(played.tokensPerSecond),
      ofBatch: round(played.trajectoriesPerSecond / batch),
      boundOfBatch: round(bound / batch),
      ofBound: round(played.trajectoriesPerSecond / bound),
      forecast: round(expected),
      error: round(expected / played.trajectoriesPerSecond - 1),
    };
    if (at === 0) say(line(Object.keys(row)));
    say(line(Object.values(row)));
    rows.push(row);
  }
  const ours = rows.filter(({ scheduler }) => scheduler === 'ours');
  const gains = ours.filter(({ tools }) => tools > 0).map(({ ofBatch }) => ofBatch);
  const failed = cells.reduce((sum, { played }) => sum + played.failed, 0);
  conclude(
    [
      atMost('trajectories that failed', failed, 0),
      atLeast('our scheduler against batch-level turns with tools, median', median(gains), 1),
      atLeast(
        'our scheduler against the bound, median',
        median(ours.map(({ ofBound }) => ofBound)),
        Number(flags.share),
      ),
    ],
    {
      model: opened.model.split('/').at(-1),
      trajectories: cells[0]!.played.trajectories.length,
      calibration,
      forecastError: median(rows.map(({ error }) => Math.abs(error))),
      forecastErrorMost: Math.max(...rows.map(({ error }) => Math.abs(error))),
      rows,
    },
  );
}

function line(values: readonly unknown[]): string {
  return values.map((value) => String(value).padStart(13)).join('');
}

function median(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}
