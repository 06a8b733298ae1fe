/**
 * A large run in the browser: 1,000 steps of 1,024 trajectories of up to 200 tokens. Says how long the first view
 * and a trajectory take, in Chromium, and what memory the server needs. The server is a separate process.
 *
 *   npm run bench watch                    # --steps, --trajectories, --folder (kept, and used again if it is there)
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { link, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import { readFlags } from '../scripts/flags.ts';
import { atMost, conclude } from '../scripts/verdict.ts';
import { createRandom } from '../src/lib/random.ts';
import type { Group, Segment } from '../src/types.ts';
import { appendMetrics, createRunDirectory } from '../src/watch/run-directory.ts';
import { writeRunEnd } from '../src/watch/run-end.ts';
import { writeTrajectories } from '../src/watch/trajectory-store.ts';
import { writeByteModel } from '../testing/byte-model.ts';

const values = readFlags(
  { steps: '1000', trajectories: '1024', folder: '' },
  { steps: '200', trajectories: '256' },
);
const steps = Number(values.steps);
const perStep = Number(values.trajectories);
const ATTEMPTS = 8;
/** Steps that are made; the rest are hard links to them, so that the disk holds fewer bytes than the run shows. */
const MADE = 10;
const LOOKS = 12;

const folder = values.folder || (await mkdtemp(join(tmpdir(), 'rollcall-bench-watch-')));
const run = join(folder, 'large');
if (!existsSync(run)) await makeRun();
const server = spawn(process.execPath, ['bin/rollcall.js', 'watch', run, '--port', '0']);
try {
  const url = await urlOf(server);
  const browser = await chromium.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  /** Processor time of the page's main thread, in milliseconds: the same on a machine that is busy with more. */
  const busy = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return 1000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN);
  };
  const first: number[] = [];
  const firstBusy: number[] = [];
  for (let look = 0; look < 5; look++) {
    await page.goto('about:blank');
    first.push(
      await timed(async () => {
        await page.goto(url);
        await page.getByRole('img', { name: /^Reward: / }).waitFor();
      }),
    );
    firstBusy.push(await busy());
  }
  const step = await looks(page, async (random) => {
    const at = 1 + random.integer(steps);
    await page.goto(`${url}#/step?run=large&step=${at}`);
    await page.getByRole('table', { name: `Attempts of step ${at}` }).waitFor();
    await page.getByRole('status').getByText(`${perStep} of ${perStep} attempts`).waitFor();
  });
  const before = await busy();
  const trajectory = await looks(page, async (random) => {
    const [at, position] = [1 + random.integer(steps), random.integer(perStep)];
    await page.goto(`${url}#/trajectory?run=large&step=${at}&position=${position}`);
    const task = Math.floor(position / ATTEMPTS);
    await page.getByText(`Task ${task}, attempt ${position % ATTEMPTS}`, { exact: true }).waitFor();
    await page.getByRole('option').last().waitFor();
  });
  const trajectoryBusy = ((await busy()) - before) / LOOKS;
  await browser.close();
  const memory = await memoryOf(server);
  console.log(`first view ${list(first)} ms; step ${list(step)} ms; trajectory ${list(trajectory)} ms`);
  console.log(`server memory: ${memory.now} MB now, ${memory.peak} MB at its peak`);
  conclude(
    [
      atMost('first view in ms, median', median(first), 1000),
      atMost('a step in ms, median', median(step), 500),
      atMost('a trajectory in ms, median', median(trajectory), 200),
      atMost('memory of the server in MB at its peak', memory.peak, 400),
    ],
    {
      steps,
      trajectoriesPerStep: perStep,
      firstViewMs: { first: Math.round(first[0]!), median: median(first), browserBusy: median(firstBusy) },
      stepMs: { median: median(step), worst: Math.round(Math.max(...step)) },
      trajectoryMs: {
        median: median(trajectory),
        worst: Math.round(Math.max(...trajectory)),
        browserBusy: Math.round(trajectoryBusy),
      },
      serverMegabytes: memory,
      loadAverage: Number(loadavg()[0]!.toFixed(1)),
      cores: availableParallelism(),
    },
  );
} finally {
  server.kill();
  if (values.folder === '') await rm(folder, { recursive: true });
}

async function makeRun(): Promise<void> {
  const model = join(folder, 'model');
  await writeByteModel(model);
  await createRunDirectory(run, { model, steps, algorithm: { name: 'GRPO' }, agent: { name: 'bench' } });
  const random = createRandom(1);
  for (let step = 1; step <= steps; step++) {
    if (step <= MADE) await writeTrajectories(run, step, groupsOf(step));
    else for (const suffix of ['jsonl', 'tokens', 'index.json']) await copyStep(step, suffix);
    const metrics = Object.fromEntries(
      Array.from({ length: 80 }, (_, at) => [`bench/metric_${at}`, random.next()]),
    );
    await appendMetrics(run, {
      step,
      seconds: step * 3,
      metrics: { 'critic/score/mean': random.next(), 'actor/entropy': random.next(), ...metrics },
    });
  }
  await mkdir(run, { recursive: true });
  await writeRunEnd(run, { state: 'finished', step: steps });
}

/** An index names its step; the other two files do not matter to it. */
async function copyStep(step: number, suffix: string): Promise<void> {
  const source = join(run, 'trajectories', `step_${1 + ((step - 1) % MADE)}.${suffix}`);
  const target = join(run, 'trajectories', `step_${step}.${suffix}`);
  if (suffix !== 'index.json') return link(source, target);
  const text = await readFile(source, 'utf8');
  await writeFile(target, text.replace(/"step":\d+/, `"step":${step}`));
}

function groupsOf(step: number): Group[] {
  const random = createRandom(step);
  return Array.from({ length: perStep / ATTEMPTS }, (_, taskIndex) => ({
    taskIndex,
    task: { question: `question ${taskIndex}` },
    attempts: Array.from({ length: ATTEMPTS }, (_, attempt) => {
      const reward = random.integer(2);
      const tokens = 100 + random.integer(101);
      return {
        reward,
        rewards: { right: reward },
        trajectory: {
          id: `train/step-${step}/task-${taskIndex}/attempt-${attempt}`,
          step,
          taskIndex,
          task: { question: `question ${taskIndex}` },
          attempt,
          segments: [segmentOf(tokens, random)],
          messages: [
            { role: 'user' as const, content: `question ${taskIndex}`.repeat(4) },
            { role: 'assistant' as const, content: 'x'.repeat(tokens - 60) },
          ],
          chats: [{ number: 0, start: 0, end: 2, tools: [] }],
          turns: [
            {
              segment: 0,
              message: 1,
              start: 60,
              end: tokens,
              finish: 'stop' as const,
              toolCalls: [],
              toolRuns: [],
              problems: [],
            },
          ],
          text: 'x'.repeat(tokens - 60),
          end: { kind: 'completed' as const },
          spans: [{ kind: 'generate' as const, name: 'generate', turn: 1, start: step, end: step + tokens }],
          extra: {},
        },
      };
    }),
  }));
}

function segmentOf(tokens: number, random: ReturnType<typeof createRandom>): Segment {
  const sampled = Uint8Array.from({ length: tokens }, (_, at) => Number(at >= 60));
  return {
    ids: Int32Array.from({ length: tokens }, () => 97 + random.integer(26)),
    sampled,
    trained: sampled,
    logprobs: Float32Array.from(sampled, (flag) => flag * -random.next()),
    versions: Int32Array.from(sampled, (flag) => flag - 1),
    turns: Int32Array.from(sampled),
    images: [],
  };
}

function urlOf(process: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    process.stdout!.on('data', (text: Buffer) => {
      const url = /http:\S+/.exec(text.toString())?.[0];
      if (url) resolve(url);
    });
    process.stderr!.on('data', (text: Buffer) => console.error(text.toString().trim()));
    process.on('exit', (code) => reject(new Error(`rollcall watch ended with ${code}`)));
    setTimeout(() => reject(new Error('rollcall watch did not start within 60 s')), 60_000).unref();
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

async function looks(page: Page, look: (random: ReturnType<typeof createRandom>) => Promise<unknown>) {
  const random = createRandom(7);
  const times: number[] = [];
  for (let at = 0; at < LOOKS; at++) times.push(await timed(() => look(random)));
  await page.waitForTimeout(50);
  return times;
}

async function memoryOf({ pid }: ChildProcess): Promise<{ now: number; peak: number }> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const megabytes = (name: string) =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1000);
  return { now: megabytes('VmRSS'), peak: megabytes('VmHWM') };
}

function median(times: readonly number[]): number {
  return Math.round([...times].sort((a, b) => a - b)[Math.floor(times.length / 2)]!);
}

function list(times: readonly number[]): string {
  return times.map((time) => time.toFixed(0)).join(' ');
}
