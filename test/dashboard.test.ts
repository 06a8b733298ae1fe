import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { train } from 'rollcall';
import { byteModel } from 'rollcall/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { forkTrajectory, positionIn } from '../src/cli/fork.ts';
import { startDashboard, textsOf } from '../src/cli/watch.ts';
import type { Dashboard } from '../src/watch/dashboard/server.ts';
import { appendMetrics, createRunDirectory, discardPast, readMetrics } from '../src/watch/run-directory.ts';
import { writeRunEnd } from '../src/watch/run-end.ts';
import { writeTrajectories } from '../src/watch/trajectory-store.ts';
import { tinyModel } from './tiny-model.ts';

type Json = Record<string, never>;
interface Line {
  taskIndex: number;
  attempt: number;
  reward: number | null;
  messages: { role: string; content: string }[];
  turns: { toolRuns: { problem?: { kind: string } }[]; problems: { kind: string }[] }[];
  end: { kind: string };
}

let run: string;
let dashboard: Dashboard;
const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const blob = createHash('sha256').update(PNG).digest('hex');
const linked = 'f'.repeat(64);

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-watch-'));
  run = join(folder, 'sums');
  process.env['MODEL'] = await tinyModel();
  process.env['RUN'] = run;
  const { options } = await import('./runs/sums.ts');
  for await (const _ of train({ ...options, runDir: run })) {
    // to its end
  }
  await mkdir(join(run, 'blobs'), { recursive: true });
  await writeFile(join(run, 'blobs', blob), PNG);
  await writeFile(join(folder, 'secret'), PNG);
  await symlink(join(folder, 'secret'), join(run, 'blobs', linked));
  dashboard = await startDashboard({ runs: [run], port: 0, say: () => {} });
}, 60_000);
afterAll(() => dashboard.close());

const get = async (path: string) => (await (await fetch(`${dashboard.url}${path}`)).json()) as Json;
const linesOf = async (step: number) =>
  (await readFile(join(run, 'trajectories', `step_${step}.jsonl`), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

/** As written: `fetch` would tidy the path up first. */
const raw = (path: string, headers: Record<string, string> = {}, origin = dashboard.url) =>
  new Promise<{ status: number; body: string }>((resolve, reject) => {
    const { hostname, port } = new URL(origin);
    const sent = request(
      { hostname, port, path, headers: { host: `${hostname}:${port}`, ...headers } },
      (answer) => {
        let body = '';
        answer.on('data', (chunk) => {
          body += chunk;
        });
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body }));
      },
    );
    sent.on('error', reject);
    sent.end();
  });

test('a run is listed with its state, and its metrics are those of metrics.jsonl, column by column', async () => {
  const { runs } = (await get('api/runs')) as unknown as { runs: Json[] };
  expect(runs).toMatchObject([
    { id: 'sums', state: 'finished', step: 3, plannedSteps: 3, agent: 'adder', parent: null },
    { id: 'sums-evaluation-unseen-sums', step: 3, parent: 'sums', evaluation: 'unseen/sums' },
  ]);
  const written = (await readFile(join(run, 'metrics.jsonl'), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { step: number; metrics: Record<string, number> });
  const view = (await get('api/runs/sums/metrics')) as unknown as {
    steps: number[];
    recorded: number[];
    series: Record<string, (number | null)[]>;
  };
  expect(view.steps).toEqual(written.map(({ step }) => step));
  expect(view.recorded).toEqual([1, 2, 3]);
  for (const [name, column] of Object.entries(view.series)) {
    expect(column.length).toBe(written.length);
    written.forEach(({ metrics }, at) => {
      const value = metrics[name];
      if (value === undefined) expect(column[at]).toBeNull();
      else expect(Math.abs(column[at]! - value)).toBeLessThanOrEqual(1e-6 * Math.abs(value));
    });
  }
});

test('a step lists its attempts, and finding a word gives exactly those who say it', async () => {
  const lines = await linesOf(2);
  const step = (await get('api/runs/sums/steps/2')) as unknown as {
    attempts: { taskIndex: number; attempt: number; reward: number | null }[];
    titles: Record<number, string>;
  };
  expect(step.attempts.map(({ taskIndex, attempt, reward }) => [taskIndex, attempt, reward])).toEqual(
    lines.map(({ taskIndex, attempt, reward }) => [taskIndex, attempt, reward]),
  );
  expect(step.titles[0]).toBe('What is 2 and 0?');
  const { hits } = (await get('api/runs/sums/steps/2/search?q=gr%C3%BC%C3%9Fe')) as unknown as {
    hits: { position: number; snippet: string }[];
  };
  const saying = lines.flatMap(({ messages }, at) =>
    messages.some(({ content }) => content.includes('Grüße')) ? [at] : [],
  );
  expect(saying.length).toBeGreaterThan(0);
  expect(hits.map(({ position }) => position)).toEqual(saying);
  expect(hits[0]!.snippet).toContain('Grüße 🎉');
});

test('the texts of a trajectory’s tokens, put together, are its text', async () => {
  const lines = await linesOf(1);
  const at = lines.findIndex(({ messages }) => messages.at(-1)!.content.includes('🎉'));
  const view = (await get(`api/runs/sums/steps/1/trajectories/${at}`)) as unknown as {
    segments: { ids: number[]; texts: string[]; sampled: number[]; retokenised: unknown }[];
  };
  const { tokenizer } = byteModel();
  for (const { ids, texts, retokenised } of view.segments) {
    expect(texts.join('')).toBe(tokenizer.decode(Int32Array.from(ids)));
    expect(texts.length).toBe(ids.length);
    expect(retokenised).toEqual([]); // one token a byte: there is only one way to encode
  }
  expect(view.segments[0]!.texts).toContain('🎉');
});

test('a character of four tokens stands at the last of them, and broken bytes do not wait for ever', () => {
  const { tokenizer } = byteModel();
  expect(textsOf(tokenizer.encode('a🎉b'), tokenizer)).toEqual(['a', '', '', '', '🎉', 'b']);
  const broken = Int32Array.from([0xf0, 0x9f, 0x41]);
  expect(textsOf(broken, tokenizer).join('')).toBe(tokenizer.decode(broken));
});

test('tokens that encoding their text again would not give are told', async () => {
  const folder = join(await mkdtemp(join(tmpdir(), 'rollcall-again-')), 'again');
  await createRunDirectory(folder, { model: process.env['MODEL'] });
  // 'a', a byte that begins a character and does not end it, 'b': its text is a�b, and � is three bytes.
  const ids = Int32Array.from([0x61, 0xf0, 0x62]);
  const flags = Uint8Array.from([0, 1, 1]);
  const segment = {
    ids,
    sampled: flags,
    trained: flags,
    logprobs: new Float32Array(3),
    versions: new Int32Array(3),
    turns: new Int32Array(3),
    images: [],
  };
  const place = { id: 'one', step: 1, taskIndex: 0, task: {}, attempt: 0 };
  const told = {
    messages: [],
    chats: [],
    turns: [],
    text: '',
    end: { kind: 'completed' as const },
    spans: [],
    extra: {},
  };
  const attempts = [{ trajectory: { ...place, ...told, segments: [segment] }, rewards: {}, reward: 0 }];
  await writeTrajectories(folder, 1, [{ taskIndex: 0, task: {}, attempts }]);
  const other = await startDashboard({ runs: [folder], port: 0, say: () => {} });
  try {
    const answer = await fetch(`${other.url}api/runs/again/steps/1/trajectories/0`);
    const { segments } = (await answer.json()) as { segments: { retokenised: unknown; texts: string[] }[] };
    expect(segments[0]!.retokenised).toMatchObject([{ start: 1, end: 2, ids: [0xef, 0xbf, 0xbd] }]);
    expect(segments[0]!.texts.join('')).toBe('a\uFFFDb');
  } finally {
    await other.close();
  }
});

test('a resumed run is shown as it is now, whatever was read before', async () => {
  const folder = join(await mkdtemp(join(tmpdir(), 'rollcall-resumed-')), 'resumed');
  await cp(run, folder, { recursive: true });
  const broken = join(folder, '..', 'broken');
  await createRunDirectory(broken, {});
  const other = await startDashboard({ runs: [folder, broken], port: 0, say: () => {} });
  const ask = async <R>(path: string) => (await (await fetch(`${other.url}api/runs${path}`)).json()) as R;
  type Runs = { runs: { id: string; step: number | null; metricsFile: number }[] };
  type Series = { steps: number[]; series: Record<string, number[]> };
  type Step = { attempts: { taskIndex: number }[] };
  try {
    const before = (await ask<Runs>('')).runs.find(({ id }) => id === 'resumed')!;
    const { taskIndex } = (await ask<Step>('/resumed/steps/3')).attempts[0]!;
    await ask(`/resumed/tasks/${taskIndex}`);

    await discardPast(folder, 2, 'test');
    const metrics = { again: 1, ['x'.repeat(9_999)]: 1 }; // the file is longer than it was
    await appendMetrics(folder, { step: 3, seconds: 9, metrics });
    const task = { taskIndex: 9_999, task: {}, attempts: [] };
    await writeTrajectories(folder, 3, [task]);
    const { steps, series } = await ask<Series>('/resumed/metrics');
    expect(steps).toEqual([0, 1, 2, 3]);
    expect(series['again']).toEqual([null, null, null, 1]);
    expect((await ask<Step>('/resumed/steps/3')).attempts).toEqual([]);
    expect(await ask<{ steps: number[] }>(`/resumed/tasks/${taskIndex}`)).not.toMatchObject({
      steps: expect.arrayContaining([3]),
    });

    await writeFile(join(broken, 'metrics.jsonl'), 'no json\n');
    const { runs } = await ask<Runs>('');
    expect(runs.find(({ id }) => id === 'resumed')!.metricsFile).not.toBe(before.metricsFile);
    expect(runs.find(({ id }) => id === 'broken')!.step).toBeNull();
    expect(await ask('/broken/metrics')).toMatchObject({ error: expect.stringContaining('no json') });
    await writeFile(join(broken, 'metrics.jsonl'), '{"step":1,"seconds":1,"metrics":{}}\n');
    expect((await ask<Series>('/broken/metrics')).steps).toEqual([1]);
  } finally {
    await other.close();
  }
}, 60_000);

test('a folder shows runs that begin later, and why one has failed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-later-'));
  await createRunDirectory(join(folder, 'first'), {});
  const other = await startDashboard({ runs: [folder], port: 0, say: () => {} });
  const listed = async () =>
    ((await (await fetch(`${other.url}api/runs`)).json()) as { runs: Record<string, unknown>[] }).runs;
  try {
    expect((await listed()).map(({ id }) => id)).toEqual(['first']);
    await createRunDirectory(join(folder, 'second'), {});
    await writeRunEnd(join(folder, 'second'), { state: 'failed', step: 0, reason: 'no server is left' });
    expect(await listed()).toMatchObject([
      { id: 'first', state: 'killed' },
      { id: 'second', state: 'failed', reason: 'no server is left' },
    ]);
  } finally {
    await other.close();
  }
});

test('a fork of one of two attempts with the same numbers is told when it began', () => {
  const at = (step: number, taskIndex: number) => ({
    id: `train/step-${step}/task-${taskIndex}/attempt-0`,
    taskIndex,
    attempt: 0,
  });
  const entries = [at(3, 1), at(3, 2), at(4, 2)];
  const wanted = { run: 'runs/a', step: 4, task: 2, attempt: 0 };
  expect(positionIn(entries, { ...wanted, task: 1 })).toBe(0);
  expect(positionIn(entries, { ...wanted, began: 4 })).toBe(2);
  expect(() => positionIn(entries, wanted)).toThrow('begun in steps 3 and 4; choose with --began');
  expect(() => positionIn(entries, { ...wanted, began: 2 })).toThrow('it has one of 3 and 4');
  expect(() => positionIn(entries, { ...wanted, task: 9 })).toThrow('has no attempt 0 at task 9');
});

test('a fork continues from the newest checkpoint with the edited message, from any directory, and is written as a run of its own', async () => {
  const lines = await linesOf(1);
  const position = lines.findIndex(({ messages }) => messages.some(({ role }) => role === 'tool'));
  const at = lines[position]!.messages.findIndex(({ role }) => role === 'tool');
  const request = { step: 1, position, turn: 2, attempts: 2, edits: { [at]: 'seven' } };
  const here = process.cwd();
  process.chdir(tmpdir());
  const { directory, groups } = await forkTrajectory(relative(tmpdir(), run), request);
  process.chdir(here);
  const { model } = JSON.parse(await readFile(join(directory, 'options.json'), 'utf8')) as { model: string };
  expect(model).toBe(join(run, 'checkpoints', 'global_step_3'));
  expect(groups[0]!.attempts.map(({ trajectory }) => trajectory.messages[at]!.content)).toEqual([
    'seven',
    'seven',
  ]);
  const written = await readFile(join(directory, 'trajectories', 'step_1.jsonl'), 'utf8');
  expect(written.trim().split('\n').length).toBe(2);
  await expect(forkTrajectory(run, { ...request, turn: 9 })).rejects.toThrow(
    /there is no turn 9 .* turns 1 to \d/,
  );
  await expect(forkTrajectory(run, { ...request, turn: 1 })).rejects.toThrow(
    `message ${at} does not lie before turn 1; these can be edited: 0`,
  );
});

test('failures are the ends and mistakes in the trajectories, and no others', async () => {
  const lines = await linesOf(3);
  const expected = lines.flatMap(({ end, turns }, position) => [
    ...(end.kind === 'completed' ? [] : [`${position} end`]),
    ...turns.flatMap(({ problems, toolRuns }) =>
      [...problems, ...toolRuns.flatMap(({ problem }) => problem ?? [])].map(
        ({ kind }) => `${position} ${kind}`,
      ),
    ),
  ]);
  const { failures } = (await get('api/runs/sums/steps/3/failures')) as unknown as {
    failures: { position: number; kind: string }[];
  };
  const found = failures.map(
    ({ position, kind }) =>
      `${position} ${kind.startsWith('ends/') ? 'end' : kind.replace('tools/problems/', '')}`,
  );
  expect(found).toEqual(expected);
  expect(new Set(failures.map(({ kind }) => kind))).toContain('tools/problems/unknown-tool');
});

test('what an evaluation sampled is shown as a run is, and gives the mean that its metric says', async () => {
  const place = 'api/runs/sums-evaluation-unseen-sums';
  const { recorded } = (await get(`${place}/metrics`)) as unknown as { recorded: number[] };
  expect(recorded).toEqual([0, 3]); // before training, and after the last step
  const lines = await readMetrics(run);
  for (const step of recorded) {
    const { attempts, titles } = (await get(`${place}/steps/${step}`)) as unknown as {
      attempts: { taskIndex: number; attempt: number; reward: number }[];
      titles: Record<number, string>;
    };
    expect(attempts.map(({ taskIndex, attempt }) => [taskIndex, attempt])).toEqual([
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ]);
    expect(titles).toEqual({ 0: 'What is 50 and 7?', 1: 'What is 60 and 8?' });
    const { metrics } = lines.find((line) => line.step === step)!;
    const mean = attempts.reduce((sum, { reward }) => sum + reward, 0) / 4;
    expect(metrics['val-core/unseen/sums/reward/mean@2']).toBeCloseTo(mean, 12);
  }
  const { trajectory, withoutTexts } = (await get(`${place}/steps/3/trajectories/2`)) as unknown as {
    trajectory: { id: string; evaluation: string };
    withoutTexts: string | null;
  };
  expect(trajectory).toMatchObject({
    id: 'evaluation/unseen/sums/step-3/task-1/attempt-0',
    evaluation: 'unseen/sums',
  });
  expect(withoutTexts).toBeNull();
});

test('nothing outside the runs can be read, whatever the path', async () => {
  const secret = '../'.repeat(12);
  const paths = [
    `/${secret}etc/passwd`,
    `/..%2f..%2f..%2fetc%2fpasswd`,
    `/%2e%2e/%2e%2e/package.json`,
    '/page.js/../../../package.json',
    '//etc/passwd',
    '/api/runs/../../../etc/passwd',
    '/api/runs/..%2f..%2f..%2ftmp/metrics',
    '/api/runs/sums/steps/1%2f..%2f..%2foptions',
    '/api/runs/sums/steps/..%2f..%2foptions.json',
    '/api/runs/sums/steps/1e1',
    '/api/runs/sums/steps/-1',
    '/api/runs/sums/steps/1/trajectories/999999',
    '/api/runs/sums/steps/1/trajectories/__proto__',
    '/api/runs/__proto__/metrics',
    `/api/runs/sums/blobs/..%2foptions.json`,
    `/api/runs/sums/blobs/${linked}`,
    '/index.html%00.js',
  ];
  for (const path of paths) {
    const { status, body } = await raw(path);
    expect([path, status]).toEqual([path, 404]);
    expect(body).not.toMatch(/root:|"format"|dependencies/);
  }
  expect((await raw(`/api/runs/sums/blobs/${blob}`)).status).toBe(200);
});

test('other pages and other names of this machine are refused', async () => {
  expect((await raw('/api/runs', { host: 'evil.example' })).status).toBe(403);
  expect((await raw('/api/runs', { origin: 'http://evil.example' })).status).toBe(403);
  expect((await raw('/api/runs')).status).toBe(200);
});

test('bound to another address, the page needs the token of its link', async () => {
  const open = await startDashboard({ runs: [run], port: 0, host: '0.0.0.0', say: () => {} });
  try {
    const url = new URL(open.url);
    const local = `http://127.0.0.1:${url.port}`;
    expect((await fetch(`${local}/api/runs`)).status).toBe(401);
    expect((await fetch(`${local}/api/runs?token=wrong`)).status).toBe(401);
    const first = await fetch(`${local}/${url.search}`);
    expect(first.status).toBe(200);
    const cookie = first.headers.get('set-cookie')!;
    expect(cookie).toMatch(/HttpOnly/);
    expect((await fetch(`${local}/api/runs`, { headers: { cookie: cookie.split(';')[0]! } })).status).toBe(
      200,
    );
  } finally {
    await open.close();
  }
});

test('a folder that holds no run is refused with what was looked for', async () => {
  const empty = await mkdtemp(join(tmpdir(), 'rollcall-empty-'));
  await expect(startDashboard({ runs: [empty], port: 0 })).rejects.toThrow(
    /is not a run directory \(it has no options.json\)/,
  );
});
