import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type StepReport, servers, type TrainOptions, train } from 'rollcall';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type StartedServer, startProcess } from './stand-ins/start.ts';
import { tinyModel } from './tiny-model.ts';

const rollcall = fileURLToPath(new URL('../bin/rollcall.js', import.meta.url));
const running: StartedServer[] = [];

let model: string;
let options: TrainOptions<{ letter: string }>;

beforeAll(async () => {
  model = await tinyModel();
  process.env['MODEL'] = model;
  process.env['RUN'] = 'given below';
  ({ options } = await import('./runs/letters.ts'));
}, 60_000);

afterAll(async () => {
  await Promise.all(running.map((server) => server.stop('SIGKILL')));
});

async function serve(port = 0): Promise<StartedServer> {
  const command = [rollcall, 'serve', '--model', model, '--port', String(port), '--threads', '1'];
  const server = await startProcess(command);
  running.push(server);
  return server;
}

interface Told {
  readonly rewards: (number | undefined)[];
  readonly texts: string[];
  readonly ends: string[];
  readonly gradNorm: number | undefined;
}

/** What a run did, step by step: exactly what was sampled, what it was worth, and how far the weights moved. */
async function run(
  from: NonNullable<TrainOptions['servers']>,
  afterStep: (report: StepReport<{ letter: string }>) => Promise<void> = async () => {},
  onProgress?: TrainOptions['onProgress'],
): Promise<Told[]> {
  const runDir = await mkdtemp(join(tmpdir(), 'rollcall-http-'));
  const told: Told[] = [];
  for await (const report of train({
    ...options,
    servers: from,
    runDir,
    steps: 8,
    ...(onProgress ? { onProgress } : {}),
  })) {
    if (report.step === 0) continue;
    const attempts = report.groups.flatMap((group) => group.attempts);
    told.push({
      rewards: attempts.map(({ reward }) => reward),
      texts: attempts.map(({ trajectory }) => trajectory.text),
      ends: attempts.map(({ trajectory }) => trajectory.end.kind),
      gradNorm: report.metrics['actor/grad_norm'],
    });
    await afterStep(report);
  }
  expect((await readFile(join(runDir, 'metrics.jsonl'), 'utf8')).split('\n').length).toBeGreaterThan(4);
  return told;
}

const mean = (values: readonly (number | undefined)[]) =>
  values.reduce<number>((sum, value) => sum + value!, 0) / values.length;

test('two replicas over HTTP learn what the engine in this process learns, token by token; one killed loses nothing', async () => {
  const near = await run(options.servers!);
  const rewards = near.map((step) => mean(step.rewards));
  expect(mean(rewards.slice(-2))).toBeGreaterThan(mean(rewards.slice(0, 2)) + 0.05);

  const [first, second] = [await serve(), await serve()];
  const log: string[] = [];
  const over = () =>
    servers({
      urls: [first.url, second.url],
      engine: 'rollcall',
      gateway: { backoffMs: 20 },
      log: (line) => log.push(line),
    });
  expect(await run(over())).toEqual(near);
  expect(log).toEqual([]);

  let killed = false;
  const killInTheMiddle: TrainOptions['onProgress'] = ({ step, phase, done }) => {
    if (step !== 3 || phase !== 'rollout' || done !== 2 || killed) return;
    killed = true;
    second.process.kill('SIGKILL');
  };
  let restarted: StartedServer | undefined;
  const told = await run(
    over(),
    async ({ step }) => {
      if (step === 6) restarted = await serve(Number(new URL(second.url).port));
    },
    killInTheMiddle,
  );
  expect(killed).toBe(true);
  expect(told.map(({ ends }) => ends)).toEqual(near.map(({ ends }) => ends));
  expect(told).toEqual(near);
  expect(log[0]).toContain(`${second.url} is out`);
  expect(restarted).toBeDefined();
  expect(log.at(-1)).toBe(`${second.url} is back, with version 7`);
}, 300_000);
