import { appendFile, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, embedded, reward, type StepReport, type TrainOptions, train } from 'rollcall';
import { mlflow, mlflowTraces, otlp, type Tracker, tensorboard, wandb, weaveTraces } from 'rollcall/trackers';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { command } from './command.ts';
import { tinyModel } from './tiny-model.ts';
import {
  collectorStandIn,
  type DecodedSpan,
  decodeSpans,
  type MlflowRun,
  mlflowStandIn,
  readEvents,
  type StandIn,
  wandbStandIn,
} from './trackers-stand-ins.ts';

type Letter = { letter: string };

vi.setConfig({ testTimeout: 120_000 }); // whole runs

let model: string;
let folder: string;
const servers: StandIn<unknown>[] = [];
const started = async <S>(server: Promise<StandIn<S>>): Promise<StandIn<S>> => {
  servers.push((await server) as StandIn<unknown>);
  return server;
};
beforeAll(async () => {
  model = await tinyModel();
  folder = await mkdtemp(join(tmpdir(), 'rollcall-trackers-'));
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
});

let runs = 0;
const options = (
  trackers: readonly Tracker[],
  more: Partial<TrainOptions<Letter>> = {},
): TrainOptions<Letter> => ({
  model,
  runDir: join(folder, `run-${++runs}`),
  tasks: arrayDataset(['a', 'b', 'c'].map((letter) => ({ letter }))),
  agent: agent<Letter>(async ({ task, model: policy }) => {
    const chat = policy.chat();
    chat.user(task.letter);
    await chat.sample();
  }),
  rewards: [reward<Letter>('length', ({ trajectory: { text } }) => text.length)],
  ...embedded({ threads: 1 }),
  steps: 2,
  tasksPerStep: 2,
  attemptsPerTask: 2,
  limits: { tokensPerReply: 6 },
  trackers,
  ...more,
});

async function run(given: TrainOptions<Letter>, onStep: (report: StepReport<Letter>) => void = () => {}) {
  const notices: string[] = [];
  const warned = (warning: Error) => notices.push(warning.message);
  process.on('warning', warned);
  try {
    for await (const report of train(given)) {
      notices.push(...report.notices.filter((notice) => notice.includes('tracker')));
      onStep(report);
    }
    await new Promise((resolve) => setImmediate(resolve)); // warnings come a tick later
  } finally {
    process.off('warning', warned);
  }
  return { notices, lines: await linesOf(given.runDir) };
}

async function linesOf(runDir: string) {
  const text = await readFile(join(runDir, 'metrics.jsonl'), 'utf8');
  const lines = text.trim().split('\n');
  return lines.map((line) => JSON.parse(line) as { step: number; metrics: Record<string, number> });
}

/** What a server was told, as a run directory would say it. */
const asLines = ({ metrics }: MlflowRun) =>
  [...new Set(metrics.map(({ step }) => step))].map((step) => ({
    step,
    metrics: Object.fromEntries(
      metrics.filter((metric) => metric.step === step).map(({ key, value }) => [key, value]),
    ),
  }));

const named = (metrics: Record<string, number>) =>
  Object.fromEntries(Object.entries(metrics).map(([name, value]) => [name.replaceAll('@', '_at_'), value]));

describe('a run with every tracker', () => {
  test('arrives everywhere as metrics.jsonl has it', async () => {
    const flow = await started(mlflowStandIn());
    const bias = await started(wandbStandIn('key'));
    const collector = await started(collectorStandIn());
    const board = join(folder, 'board');
    const environment = { MLFLOW_TRACKING_URI: flow.url, WANDB_API_KEY: 'key', WANDB_BASE_URL: bias.url };
    const names = { project: 'letters', experiment: 'first' };
    const given = options(
      [
        tensorboard({ directory: board }),
        mlflow({ ...names, environment }),
        wandb({ ...names, environment }),
        otlp({ url: `${collector.url}/v1/traces`, experiment: 'first', text: true }),
      ],
      { validation: arrayDataset([{ letter: 'd' }]), evaluation: { every: 1 } },
    );
    const { notices, lines } = await run(given);
    expect(notices).toEqual([]);
    expect(lines.map(({ step }) => step)).toEqual([0, 1, 2]);
    expect(Object.keys(lines[2]!.metrics)).toContain('val-core/validation/reward/mean@1');

    const flowRun = flow.state.runs.get('run0')!;
    expect(flowRun).toMatchObject({ experiment: 'letters', name: 'first', status: 'FINISHED' });
    expect(asLines(flowRun)).toEqual(lines.map(({ step, metrics }) => ({ step, metrics: named(metrics) })));
    expect(flowRun.params.get('limits/tokensPerReply')).toBe('6');
    expect(flowRun.params.get('limits/answers')).toBe('Infinity');
    expect(flowRun.artifacts.get('metrics.jsonl')).toEqual(
      await readFile(join(given.runDir, 'metrics.jsonl')),
    );

    const [biasRun] = [...bias.state.runs.values()];
    const history = biasRun!.history.map((line) => JSON.parse(line) as Record<string, number>);
    expect(history).toEqual(
      lines.map(({ step, metrics }) => expect.objectContaining({ ...metrics, _step: step })),
    );
    expect(JSON.parse(biasRun!.summary)).toMatchObject(lines[2]!.metrics);
    expect(biasRun).toMatchObject({ exit: 0, variables: { project: 'letters', displayName: 'first' } });
    expect(JSON.parse(String(biasRun!.variables['config']))).toMatchObject({ steps: { value: 2 } });

    const [file] = await readdir(board);
    const events = readEvents(await readFile(join(board, file!)));
    expect(events.slice(1).map(({ step, scalars }) => ({ step, scalars }))).toEqual(
      lines.map(({ step, metrics }) => ({
        step,
        scalars: Object.fromEntries(
          Object.entries(metrics).map(([name, value]) => [name, Math.fround(value)]),
        ),
      })),
    );

    const spans = collector.state.bodies.flatMap((body) => decodeSpans(body).spans);
    const roots = spans.filter(({ parentId }) => parentId === '');
    const isEvaluation = ({ attributes }: DecodedSpan) => attributes['mlflow.traceTag.validate'] === 'true';
    expect(roots.filter((root) => !isEvaluation(root))).toHaveLength(2 * 2 * 2);
    expect(roots.filter(isEvaluation).map(({ attributes }) => attributes)).toMatchObject(
      [0, 1, 2].map((step) => ({ 'rollcall.step': step, 'rollcall.evaluation': 'validation' })),
    );
    expect(new Set(roots.map(({ traceId }) => traceId)).size).toBe(roots.length);

    // The run directory has them all: an export is the same traces again, or a share of them.
    const exported = async (...flags: string[]) => {
      const before = collector.state.bodies.length;
      const to = ['--to', `otlp=${collector.url}/v1/traces`];
      await command('export', given.runDir, ...to, ...flags);
      const sent = collector.state.bodies.slice(before).flatMap((body) => decodeSpans(body).spans);
      return sent.filter(({ parentId }) => parentId === '').map(({ traceId }) => traceId);
    };
    expect((await exported()).sort()).toEqual(roots.map(({ traceId }) => traceId).sort());
    expect(await exported('--samples-per-step', '1')).toHaveLength(2 * 2 + 3);
  });

  test('is one run there, also when it was stopped and resumed, and exported after', async () => {
    const flow = await started(mlflowStandIn());
    const bias = await started(wandbStandIn('key'));
    const board = join(folder, 'resumed-board');
    const environment = { MLFLOW_TRACKING_URI: flow.url, WANDB_API_KEY: 'key', WANDB_BASE_URL: bias.url };
    const trackers = () => [
      mlflow({ project: 'letters', experiment: 'resumed', environment }),
      wandb({ project: 'letters', experiment: 'resumed', environment }),
      tensorboard({ directory: board }),
    ];
    const given = options(trackers(), { steps: 3, checkpoints: { every: 1 } });
    for await (const { step } of train(given)) if (step === 1) break;
    expect(flow.state.runs.get('run0')!.status).toBe('KILLED');
    const { lines } = await run({ ...given, trackers: trackers(), resume: true });
    expect(flow.state.runs.size).toBe(1);
    expect(flow.state.runs.get('run0')!.status).toBe('FINISHED');
    expect(asLines(flow.state.runs.get('run0')!)).toEqual(
      lines.map(({ step, metrics }) => ({ step, metrics: named(metrics) })),
    );
    const steps = () =>
      [...bias.state.runs.values()].map(({ history }) =>
        history.map((row) => JSON.parse(row)._step as number),
      );
    expect(steps()).toEqual([lines.map(({ step }) => step)]);
    const files = (await readdir(board)).sort();
    expect(files).toHaveLength(2);
    const second = readEvents(await readFile(join(board, files[1]!)));
    expect(second[1]).toMatchObject({ restart: true, step: 2 });

    const before = asLines(flow.state.runs.get('run0')!);
    const to = ['--to', `mlflow=${flow.url}`, '--to', 'wandb'];
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    const { stderr } = await command('export', given.runDir, '--project', 'letters', ...to);
    vi.unstubAllEnvs();
    expect(stderr).toMatch(/mlflow: 4 steps sent\nwandb: 4 steps sent/);
    expect(steps()).toEqual([lines.map(({ step }) => step)]);
    expect(asLines(flow.state.runs.get('run0')!)).toEqual(before);
  });
});

describe('trackers in trouble never stop a run, are reported once, and cost no line of metrics.jsonl', () => {
  const toMlflow = (uri: string) => mlflow({ uri, project: 'p', experiment: 'e', environment: {} });

  test('down, answering 500, cutting connections, a full disk, a folder that is a file, refusing a line', async () => {
    const [down, broken, cutting, strict] = await Promise.all([
      mlflowStandIn(),
      started(mlflowStandIn()),
      started(mlflowStandIn()),
      started(mlflowStandIn()),
    ]);
    await down.close();
    broken.fault = 500;
    cutting.fault = 'cut';
    const full: Tracker = {
      name: 'full',
      log: (lines) => appendFile('/dev/full', JSON.stringify(lines)), // the kernel answers ENOSPC
    };
    const file = join(folder, 'not-a-folder');
    await writeFile(file, '');
    const { log, ...toStrict } = toMlflow(strict.url);
    const refused: Tracker = {
      ...toStrict,
      log: (lines, signal) =>
        log!(
          lines.map((line) => (line.step === 2 ? { ...line, step: 2.5 } : line)),
          signal,
        ),
    };
    const trackers = [toMlflow(down.url), toMlflow(broken.url), toMlflow(cutting.url)];
    trackers.push(full, tensorboard({ directory: file }), refused);
    const { notices, lines } = await run(options(trackers, { steps: 4 }));
    expect(lines.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4]);
    const said = (what: RegExp) => notices.filter((notice) => what.test(notice));
    expect(said(/ECONNREFUSED/)).toEqual([
      expect.stringContaining(`rollcall export RUN --to mlflow=${down.url}`),
    ]);
    expect(said(/answered 500 at .*out of order/)).toHaveLength(1);
    expect(said(new RegExp(`cannot be reached at ${cutting.url}`))).toHaveLength(1);
    expect(said(/The tracker full failed: ENOSPC/)).toHaveLength(1);
    expect(said(/The tracker tensorboard failed: EEXIST/)).toHaveLength(1);
    expect(said(/answered 400/)).toHaveLength(1);
    expect(notices).toHaveLength(6);
    // A line that is refused does not hold up the next.
    expect(asLines(strict.state.runs.get('run0')!).map(({ step }) => step)).toContain(4);
  });

  test('killed in the middle, and back again: what it missed is sent', async () => {
    const server = await started(wandbStandIn('key'));
    const environment = { WANDB_API_KEY: 'key', WANDB_BASE_URL: server.url };
    const tracker = wandb({ project: 'p', experiment: 'e', environment });
    const { notices } = await run(options([tracker], { steps: 4 }), ({ step }) => {
      server.fault = step === 1 || step === 2 ? 'cut' : 'none';
    });
    expect(notices).toHaveLength(1);
    const { history } = [...server.state.runs.values()][0]!;
    expect(history.map((row) => JSON.parse(row)._step as number)).toEqual([0, 1, 2, 3, 4]);
  });
});

describe('refused before anything starts', () => {
  test('MLflow at no server, database or folder', () => {
    expect(() => mlflow({ uri: 'databricks', project: 'p', experiment: 'e' })).toThrow(
      /"databricks"; use a server .* a database .* a folder .*rollcall export RUN --to mlflow=/,
    );
  });
  test('W&B without a key, and in a mode that there is not', () => {
    const names = { project: 'p', experiment: 'e' };
    expect(() => wandb({ ...names, environment: {} })).toThrow(/WANDB_API_KEY is not set/);
    expect(() => weaveTraces({ ...names, environment: {} })).toThrow(/WANDB_API_KEY is not set/);
    expect(() => wandb({ ...names, environment: { WANDB_MODE: 'of' } })).toThrow(
      /WANDB_MODE is "of"; use online/,
    );
  });
  test('an export without a run, to nowhere, or to a tracker that is down', async () => {
    expect((await command('export', folder, '--to', 'tensorboard=x')).stderr).toMatch(
      /is not a run directory/,
    );
    expect((await command('export', folder, '--to', 'board=x')).stderr).toMatch(
      /use tensorboard, mlflow, wandb, weave, otlp/,
    );
  });
});

test('credentials come from the environment or the address, and are in no message', async () => {
  const server = await started(mlflowStandIn());
  const tracked = {
    directory: folder,
    options: {},
    resumedAt: undefined,
    clockBegan: 0,
    decode: () => '',
    memory: { read: async () => undefined, write: async () => {} },
  };
  const open = async (uri: string, environment: Record<string, string>) => {
    const tracker = mlflow({ uri, environment, project: 'p', experiment: 'e' });
    return tracker.open!(tracked, AbortSignal.timeout(5_000)).then(
      () => 'opened',
      (error: Error) => error.message,
    );
  };
  server.state.authorization = `Basic ${Buffer.from('me:secret').toString('base64')}`;
  const user = { MLFLOW_TRACKING_USERNAME: 'me', MLFLOW_TRACKING_PASSWORD: 'secret' };
  expect(await open(server.url, user)).toBe('opened');
  expect(await open(server.url.replace('//', '//me:secret@'), {})).toBe('opened');
  const refused = await open(server.url.replace('//', '//me:other-secret@'), {});
  expect(refused).toContain('answered 401');
  expect(refused).not.toContain('secret');
  server.state.authorization = 'Bearer token';
  expect(await open(server.url, { MLFLOW_TRACKING_TOKEN: 'token' })).toBe('opened');
});

describe('traces', () => {
  const traced = async (more: { text?: boolean; tasksPerStep?: number }) => {
    const collector = await started(collectorStandIn());
    const given = options([otlp({ url: collector.url, experiment: 'e', ...more })], { steps: 1 });
    const reports: StepReport<Letter>[] = [];
    await run(given, (report) => reports.push(report));
    const decoded = collector.state.bodies.map(decodeSpans);
    return { spans: decoded.flatMap(({ spans }) => spans), decoded, groups: reports.at(-1)!.groups };
  };

  test('have a root per trajectory with step, sample and attempt, and children within its time', async () => {
    const { spans, decoded, groups } = await traced({ text: true });
    expect(decoded[0]!.resource).toMatchObject({ 'service.name': 'rollcall' });
    const roots = spans.filter(({ parentId }) => parentId === '');
    const attempts = groups.flatMap((group) => group.attempts);
    expect(roots.map(({ attributes }) => attributes['rollcall.trajectory'])).toEqual(
      attempts.map(({ trajectory }) => trajectory.id),
    );
    for (const [at, root] of roots.entries()) {
      const { trajectory, reward: value } = attempts[at]!;
      const segment = trajectory.segments[0]!;
      const { start, end } = trajectory.turns[0]!;
      expect(root.attributes).toMatchObject({
        'gen_ai.operation.name': 'invoke_agent',
        'mlflow.traceTag.step': '1',
        'mlflow.traceTag.sample_index': String(trajectory.taskIndex),
        'mlflow.traceTag.rollout_n': String(trajectory.attempt),
        'rollcall.reward': value,
      });
      const children = spans.filter(
        ({ parentId, traceId }) => parentId === root.spanId && traceId === root.traceId,
      );
      expect(children.map(({ name }) => name)).toEqual(expect.arrayContaining(['chat', 'reward length']));
      const chat = children.find(({ name }) => name === 'chat') as DecodedSpan;
      expect(chat.attributes).toMatchObject({
        'gen_ai.usage.input_tokens': start,
        'gen_ai.usage.output_tokens': end - start,
        'rollcall.response_ids': [...segment.ids.subarray(start, end)],
      });
      // A byte model: ids below 256 are the bytes of the text.
      const bytes = [...segment.ids.subarray(start, end)].filter((id) => id < 256);
      expect(String(chat.attributes['response_text']).replace(/<\|.*?\|>/g, '')).toBe(
        Buffer.from(bytes).toString(),
      );
      for (const child of children) {
        expect(child.start >= root.start && child.end <= root.end && child.start <= child.end).toBe(true);
      }
    }
  });

  test('without text carry ids alone, and of a share of the tasks all attempts', async () => {
    const { spans } = await traced({ tasksPerStep: 1 });
    expect(
      spans.some(({ attributes }) => 'response_text' in attributes || 'gen_ai.input.messages' in attributes),
    ).toBe(false);
    const roots = spans.filter(({ parentId }) => parentId === '');
    expect(roots).toHaveLength(2);
    expect(new Set(roots.map(({ attributes }) => attributes['rollcall.sample_index'])).size).toBe(1);
  });

  test('go to MLflow with its experiment and run, and to Weave with key and project', async () => {
    const collector = await started(collectorStandIn());
    const flow = await started(mlflowStandIn());
    const bias = await started(wandbStandIn('key'));
    const environment = {
      MLFLOW_TRACKING_URI: flow.url,
      WANDB_API_KEY: 'key',
      WANDB_BASE_URL: bias.url,
      WF_TRACE_SERVER_URL: collector.url,
    };
    const names = { project: 'p', experiment: 'e', environment };
    const { notices } = await run(
      options([mlflow(names), mlflowTraces(names), weaveTraces(names)], { steps: 1 }),
    );
    expect(notices).toEqual([]);
    expect([...flow.state.traces.values()]).toEqual(Array(4).fill({ experiment: 'p', run: 'run0' }));
    expect(collector.requests).toContain('POST /otel/v1/traces');
    expect(collector.state.headers[0]).toMatchObject({ 'wandb-api-key': 'key', project_id: 'somebody/p' });
    expect(decodeSpans(collector.state.bodies[0]!).resource).toMatchObject({
      'wandb.entity': 'somebody',
      'wandb.project': 'p',
    });
  });
});
