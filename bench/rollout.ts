/**
 * Trajectories a second on a real server: batch-level turns, request-level turns and our scheduler, over the same draws, with
 * the bound and the simulator's forecast beside each. `npm run bench rollout` starts a vLLM on the CPU (`npm run prove vllm`
 * installs it); `npm run bench rollout -- --url http://gpu:8000 --engine vllm --model DIR` measures yours in five minutes.
 */
import { resolve } from 'node:path';
import { readFlags } from '../scripts/flags.ts';
import { smallModels } from '../scripts/servers/models.ts';
import { install, REAL_SERVERS } from '../scripts/servers/real-server.ts';
import { warmStart } from '../scripts/short-run.ts';
import { atLeast, atMost, conclude } from '../scripts/verdict.ts';
import { loadModelFiles } from '../src/chat/model-files.ts';
import { engineNamed } from '../src/inference/engines.ts';
import { installedRelease } from '../src/inference/installed-engine.ts';
import { startServers } from '../src/inference/launch.ts';
import { launchCommands } from '../src/inference/launch-commands.ts';
import { realClock } from '../src/lib/clock.ts';
import { hashSeed } from '../src/lib/random.ts';
import { drawTrajectory, type LogNormal } from '../testing/index.ts';
import { boundSeconds, type Calibration, calibrate, forecast } from './rollout/calibrate.ts';
import { type Played, type PlayOptions, playBatch, SCHEDULERS } from './rollout/play.ts';

const flags = readFlags(
  {
    url: '',
    engine: 'vllm',
    model: '',
    'api-key': '',
    trajectories: '64',
    turns: '1,3,5',
    means: '0,0.5,2',
    sigma: '0.6',
    'prompt-tokens': '64',
    'reply-tokens': '24',
    'result-tokens': '16',
    'max-batch': '64',
    share: '0.9',
    seed: '1',
    runs: 'runs/prove-servers',
  },
  { trajectories: '24', turns: '1,3', means: '0,0.5', share: '0.5' },
);
const say = (line: string) => console.error(line);
const numbers = (text: string) => text.split(',').map(Number);
const clock = realClock();
const seed = Number(flags.seed);
const trajectories = Number(flags.trajectories);

const { server, model, stop } = await openServer();
try {
  await measure();
} finally {
  await server.close();
  await stop();
}

async function openServer() {
  const engine = engineNamed(flags.engine, '--engine');
  const apiKey = flags['api-key'] === '' ? undefined : flags['api-key'];
  if (flags.url !== '') {
    return { server: engine.connect({ url: flags.url, apiKey }), model: flags.model, stop: async () => {} };
  }
  const real = REAL_SERVERS[flags.engine as 'vllm' | 'sglang'];
  await install(real, say);
  const warm = await warmStart(flags.runs, { seed: 1, variant: 'short' });
  const { untied } = smallModels(warm, resolve(flags.runs, 'models'));
  const sizes = { replicas: 1, tensorParallel: 1, memoryShare: 0.5, logLevel: 'warning' } as const;
  const launch = { ...sizes, ...real.launch, program: real.program, portStart: 38_000, model: untied };
  const release = await installedRelease(engine, real.program);
  const ready = async (url: string) => {
    const probe = engine.connect({ url });
    const isReady = await probe.ready();
    await probe.close();
    return isReady;
  };
  const [started] = await startServers(launchCommands(engine, launch, process.env, release), {
    startSeconds: 600,
    ready,
    logDirectory: resolve(flags.runs, 'logs'),
    log: say,
  });
  return { server: engine.connect({ url: started!.url }), model: untied, stop: () => started!.stop() };
}

async function measure(): Promise<void> {
  const { tokenizer } = await loadModelFiles(model);
  const vocabulary = tokenizer.vocabularySize;
  const tokens = { prompt: Number(flags['prompt-tokens']), reply: Number(flags['reply-tokens']) };
  const calibration = await calibrate(server, {
    clock,
    vocabulary,
    requests: trajectories,
    promptTokens: tokens.prompt,
    replyTokens: 2 * tokens.reply,
    maxBatch: Number(flags['max-batch']),
  });
  say(`calibrated: ${JSON.stringify(calibration)}`);
  const cells: Cell[] = [];
  for (const sharesPrefixes of [true, false]) {
    for (const turns of numbers(flags.turns)) {
      for (const mean of turns === 1 ? [0] : numbers(flags.means)) {
        const plans = drawBatch(turns, mean, tokens);
        for (const scheduler of SCHEDULERS) {
          // Other tokens for each, so that none finds the prompts of the one before in the cache.
          const own = hashSeed(seed, scheduler, turns, mean, Number(sharesPrefixes));
          const options = { scheduler, seed: own, vocabulary, sharesPrefixes };
          const played = await playBatch(server, plans, { ...options, clock });
          cells.push({ turns, mean, options, played });
          say(
            `${turns} turns, tools ${mean} s, ${scheduler}: ${played.trajectoriesPerSecond.toFixed(2)} trajectories/s`,
          );
        }
      }
    }
  }
  await report(cells, calibration);
}

interface Cell {
  readonly turns: number;
  readonly mean: number;
  readonly options: Omit<PlayOptions, 'clock'>;
  readonly played: Played;
}

async function report(cells: readonly Cell[], measured: Calibration): Promise<void> {
  // The best rate that was seen at all: a bound is above everything that was measured.
  const rates = cells.map(({ played }) => played.tokensPerSecond);
  const saturatedTokensPerSecond = Math.max(measured.saturatedTokensPerSecond, ...rates);
  const calibration = { ...measured, saturatedTokensPerSecond };
  const rows = [];
  for (const [at, { turns, mean, options, played }] of cells.entries()) {
    const { scheduler, sharesPrefixes } = options;
    const batch = cells[at - SCHEDULERS.indexOf(scheduler)]!.played.trajectoriesPerSecond;
    const bound = played.trajectories.length / boundSeconds(played.trajectories, calibration);
    const expected = await forecast(played.trajectories, calibration, options);
    const row = {
      cache: sharesPrefixes ? 'on' : 'off',
      turns,
      tools: mean,
      scheduler,
      perSecond: round(played.trajectoriesPerSecond),
      tokens: round(played.tokensPerSecond),
      ofBatch: round(played.trajectoriesPerSecond / batch),
      boundOfBatch: round(bound / batch),
      ofBound: round(played.trajectoriesPerSecond / bound),
      forecast: round(expected),
      error: round(expected / played.trajectoriesPerSecond - 1),
    };
    if (at === 0)
      say(
        Object.keys(row)
          .map((name) => name.padStart(12))
          .join(''),
      );
    say(
      Object.values(row)
        .map((value) => String(value).padStart(12))
        .join(''),
    );
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
      model: model.split('/').at(-1),
      calibration,
      forecastError: median(rows.map(({ error }) => Math.abs(error))),
      rows,
    },
  );
}

/** Four attempts at each task. */
function drawBatch(turns: number, mean: number, tokens: { readonly prompt: number; readonly reply: number }) {
  const shape = {
    promptTokens: around(tokens.prompt, 0.2),
    turns,
    replyTokens: around(tokens.reply, 0.3),
    toolMs: around(1000 * mean, Number(flags.sigma)),
    resultTokens: around(Number(flags['result-tokens']), 0.2),
    sharedByTask: 0.5,
  };
  return Array.from({ length: trajectories }, (_, at) =>
    drawTrajectory(shape, { seed, task: Math.floor(at / 4), attempt: at % 4 }),
  );
}

function median(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** Log-normal with this mean. */
function around(mean: number, sigma: number): LogNormal {
  return { median: mean * Math.exp(-(sigma ** 2) / 2), sigma };
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}
