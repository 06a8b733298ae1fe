import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { command, startCommand } from './command.ts';
import { tinyModel } from './tiny-model.ts';

let folder: string;
let model: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rollcall-newcomer-'));
  model = await tinyModel();
});

/** The command as a process. */
function rollcall(words: readonly string[], node: readonly string[] = []) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...node, 'bin/rollcall.js', ...words], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { status, output: stdout + stderr };
}

let files = 0;
/** A run file that is right but for what `changes` replaces. */
function runFile(
  changes: Partial<Record<'model' | 'tasks' | 'tools' | 'reward' | 'more' | 'runDir', string>>,
): string {
  const path = join(folder, `run-${++files}.ts`);
  writeFileSync(
    path,
    `import { agent, arrayDataset, embedded, reward, tool, toolLoop } from 'rollcall';
import { jsonl } from 'rollcall/datasets';
const add = () => tool({ name: 'add', description: 'Adds.', input: { type: 'object', properties: {} }, run: () => '3' });
export const options = async () => ({
  model: ${changes.model ?? JSON.stringify(model)},
  runDir: ${changes.runDir ?? JSON.stringify(join(folder, `out-${files}`))},
  tasks: ${changes.tasks ?? "arrayDataset([{ question: 'one and two?' }, { question: 'two and two?' }])"},
  agent: toolLoop({ prompt: (task) => task.question, tools: [${changes.tools ?? ''}] }),
  rewards: [reward('length', ({ trajectory }) => ${changes.reward ?? 'trajectory.text.length'})],
  ...embedded({ threads: 1 }),
  steps: 1, tasksPerStep: 2, attemptsPerTask: 2, limits: { tokensPerReply: 4 },
  ${changes.more ?? ''}
});
`,
  );
  return path;
}

describe('what a newcomer meets is one clear message and exit code 1', () => {
  const meets = async (config: string, message: RegExp) => {
    const { status, stderr } = await command('train', config);
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/\n\s+at /); // no stack trace
    expect(status).toBe(1);
  };

  test('rows instead of a dataset', async () => {
    await meets(
      runFile({ tasks: "[{ question: 'one and two?' }]" }),
      /tasks is an array; give arrayDataset\(rows\)/,
    );
    await meets(
      runFile({ more: "validation: { held: 'rows.jsonl' }," }),
      /held is "rows.jsonl"; give a dataset/,
    );
  });

  test('no such model directory', async () => {
    await meets(
      runFile({ model: "'./models/none'" }),
      /no model at \.\/models\/none: there is no folder .*models\/none/,
    );
  });
  test('a dataset file that is missing', async () => {
    await meets(runFile({ tasks: "await jsonl('nowhere/tasks.jsonl')" }), /nowhere\/tasks\.jsonl/);
  });
  test('one attempt per task with GRPO', async () => {
    await meets(
      runFile({ more: 'attemptsPerTask: 1,' }),
      /attemptsPerTask is 1, but GRPO compares attempts at one task; use 2/,
    );
  });
  test('two tools of one name', async () => {
    await meets(runFile({ tools: 'add(), add()' }), /two tools.*add|add.*twice/i);
  });
  test('a reward with a typo', async () => {
    await meets(runFile({ reward: 'trajectory.txt.length' }), /length.*(undefined|txt)|reward/);
  });
  test('an option that does not exist', async () => {
    await meets(
      runFile({ more: 'taskPerStep: 3,' }),
      /unknown option taskPerStep; did you mean tasksPerStep\?/,
    );
  });
  test('an option of the wrong kind', async () => {
    await meets(runFile({ more: "seed: 'three'," }), /seed is "three"; use a whole number of 0 or more/);
  });
  test('a run file that is not there, and one that exports nothing', async () => {
    await meets(join(folder, 'none.ts'), /there is no run file .*none\.ts/);
    const empty = join(folder, 'empty.ts');
    writeFileSync(empty, 'export const nothing = 1;');
    await meets(empty, /exports nothing; a run file exports `options`/);
  });
  test('a run directory that already holds a run', async () => {
    const config = runFile({ runDir: JSON.stringify(join(folder, 'twice')) });
    expect(await command('train', config)).toMatchObject({ status: 0 });
    await meets(config, /twice already holds a run; continue it with resume \(--resume\)/);
  });
});

test('the process ends with that message and that exit code', () => {
  const none = join(folder, 'none.ts');
  expect(rollcall(['train', none])).toEqual({
    status: 1,
    output: `rollcall: there is no run file ${none}\n`,
  });
});

test('--debug shows the stack', async () => {
  const { stderr } = await command('train', join(folder, 'none.ts'), '--debug');
  expect(stderr).toMatch(/\n\s+at /);
});

test('an old Node is told so', () => {
  const old = join(folder, 'old-node.mjs');
  writeFileSync(
    old,
    "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.0' } });" +
      "Object.defineProperty(process, 'version', { value: 'v18.20.0' });",
  );
  const { status, output } = rollcall(['doctor'], ['--import', old]);
  expect(output).toMatch(/rollcall needs Node 20\.19 or newer; this is v18\.20\.0/);
  expect(status).toBe(1);
});

test('an unknown command names the known ones', async () => {
  const { status, stderr } = await command('trian');
  expect(stderr).toMatch(/unknown command 'trian'.*Did you mean train\?/s);
  expect(status).toBe(1);
});

const canMount = process.getuid?.() === 0 && process.platform === 'linux';
test.runIf(canMount)(
  'a full disk is called that, and the run waits for room, or ends and can go on (needs root, to mount a small disk)',
  async ({ skip }) => {
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=600k', 'tmpfs', disk]).status !== 0)
      skip('this machine does not let a test mount a disk');
    const config = (name: string, more: string) =>
      runFile({ runDir: JSON.stringify(join(disk, name)), more: `checkpoints: { every: 1 }, ${more}` });
    try {
      const ended = await command('train', config('ends', 'steps: 200, disk: { hoursForRoom: 0 },'));
      expect(ended.stderr).toMatch(/the disk is full .*continue with --resume/);
      expect(ended.stderr).not.toMatch(/\n\s+at /);
      expect(ended.status).toBe(1);

      rmSync(join(disk, 'ends'), { recursive: true });
      const waiting = startCommand('train', config('waits', 'steps: 30,'));
      await vi.waitFor(() => expect(waiting.said.stderr).toMatch(/The run waits/), { timeout: 20_000 });
      expect(spawnSync('mount', ['-o', 'remount,size=40m', disk]).status).toBe(0);
      const { status, stderr } = await waiting.ended;
      expect(stderr).toMatch(/is full: .*The run waits.*there is room on the disk again; the run goes on/s);
      expect(status).toBe(0);
    } finally {
      spawnSync('umount', [disk]);
    }
  },
);

test('a reader of the output who leaves (`| head`) is no error', async () => {
  const child = spawn(process.execPath, ['bin/rollcall.js', 'options'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout.destroy();
  let errors = '';
  child.stderr.on('data', (bytes: Buffer) => {
    errors += bytes;
  });
  const [status] = await once(child, 'close');
  expect(errors).toBe('');
  expect(status).toBe(0);
});

test('small slips on the command line are named, and nothing hangs', async () => {
  const refused = async (words: readonly string[], message: RegExp) => {
    const { status, stderr } = await command(...words);
    expect(stderr).toMatch(message);
    expect(status).toBe(1);
  };
  await refused(['export', 'runs/a'], /required option '--to <target>' not specified/);
  await refused(
    ['train', runFile({}), '--run', ''],
    /option '--run <dir>' argument '' is invalid. It is empty/,
  );
  await refused(['train', '.'], /\. is a folder; give a run file \(\.ts\) or a YAML file/);
  expect((await command('model', 'new', '--help')).stdout).toMatch(/--size <size>[^-]*\(required\)/);
  expect(rollcall(['chat', model])).toMatchObject({ status: 0 }); // its input has ended
});
