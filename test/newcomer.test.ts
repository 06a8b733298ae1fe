import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

let folder: string;
let model: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rollcall-newcomer-'));
  model = await tinyModel();
});

function rollcall(words: readonly string[], setup: { node?: readonly string[]; cwd?: string } = {}) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...(setup.node ?? []), join(process.cwd(), 'bin/rollcall.js'), ...words],
    { encoding: 'utf8', timeout: 60_000, cwd: setup.cwd ?? process.cwd() },
  );
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
  const meets = (config: string, message: RegExp) => {
    const { status, output } = rollcall(['train', config]);
    expect(output).toMatch(message);
    expect(output).not.toMatch(/\n\s+at /); // no stack trace
    expect(status).toBe(1);
  };

  test('rows instead of a dataset', () => {
    meets(
      runFile({ tasks: "[{ question: 'one and two?' }]" }),
      /tasks is an array; give arrayDataset\(rows\)/,
    );
    meets(runFile({ more: "validation: { held: 'rows.jsonl' }," }), /held is "rows.jsonl"; give a dataset/);
  });

  test('no such model directory', () => {
    meets(
      runFile({ model: "'./models/none'" }),
      /no model at \.\/models\/none: there is no folder .*models\/none/,
    );
  });
  test('a dataset file that is missing', () => {
    meets(runFile({ tasks: "await jsonl('nowhere/tasks.jsonl')" }), /nowhere\/tasks\.jsonl/);
  });
  test('one attempt per task with GRPO', () => {
    meets(
      runFile({ more: 'attemptsPerTask: 1,' }),
      /attemptsPerTask is 1, but GRPO compares attempts at one task; use 2/,
    );
  });
  test('two tools of one name', () => {
    meets(runFile({ tools: 'add(), add()' }), /two tools.*add|add.*twice/i);
  });
  test('a reward with a typo', () => {
    meets(runFile({ reward: 'trajectory.txt.length' }), /length.*(undefined|txt)|reward/);
  });
  test('an option that does not exist', () => {
    meets(runFile({ more: 'taskPerStep: 3,' }), /unknown option taskPerStep; did you mean tasksPerStep\?/);
  });
  test('an option of the wrong kind', () => {
    meets(runFile({ more: "seed: 'three'," }), /seed is "three"; use a whole number of 0 or more/);
  });
  test('a run file that is not there, and one that exports nothing', () => {
    meets(join(folder, 'none.ts'), /there is no run file .*none\.ts/);
    const empty = join(folder, 'empty.ts');
    writeFileSync(empty, 'export const nothing = 1;');
    meets(empty, /exports nothing; a run file exports `options`/);
  });
  test('a run directory that already holds a run', () => {
    const config = runFile({ runDir: JSON.stringify(join(folder, 'twice')) });
    expect(rollcall(['train', config]).status).toBe(0);
    meets(config, /twice already holds a run; continue it with resume \(--resume\)/);
  });
});

test('--debug shows the stack', () => {
  expect(rollcall(['train', join(folder, 'none.ts'), '--debug']).output).toMatch(/\n\s+at /);
});

test('an old Node is told so', () => {
  const old = join(folder, 'old-node.mjs');
  writeFileSync(
    old,
    "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.0' } });" +
      "Object.defineProperty(process, 'version', { value: 'v18.20.0' });",
  );
  const { status, output } = rollcall(['doctor'], { node: ['--import', old] });
  expect(output).toMatch(/rollcall needs Node 20\.19 or newer; this is v18\.20\.0/);
  expect(status).toBe(1);
});

test('an unknown command names the known ones', () => {
  const { status, output } = rollcall(['trian']);
  expect(output).toMatch(/unknown command 'trian'.*Did you mean train\?/s);
  expect(status).toBe(1);
});

const canMount = process.getuid?.() === 0 && process.platform === 'linux';
test.runIf(canMount)(
  'a full disk is called that, and the run can go on (needs root, to mount a small disk)',
  ({ skip }) => {
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=600k', 'tmpfs', disk]).status !== 0)
      skip('this machine does not let a test mount a disk');
    try {
      const config = runFile({
        runDir: JSON.stringify(join(disk, 'run')),
        more: 'steps: 200, checkpoints: { every: 1 },',
      });
      const { status, output } = rollcall(['train', config]);
      expect(output).toMatch(/the disk is full .*continue with --resume/);
      expect(output).not.toMatch(/\n\s+at /);
      expect(status).toBe(1);
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

test('small slips on the command line are told, and nothing is written or hangs', () => {
  const told = (words: readonly string[], message: RegExp) => {
    const { status, output } = rollcall(words, { cwd: folder });
    expect(output).toMatch(message);
    expect(status).toBe(1);
  };
  told(['export', 'runs/a'], /required option '--to <target>' not specified/);
  told(['train', runFile({}), '--run', ''], /option '--run <dir>' argument '' is invalid. It is empty/);
  told(['train', '.'], /\. is a folder; give a run file \(\.ts\) or a YAML file/);
  expect(rollcall(['model', 'new', '--help']).output).toMatch(/--size <size>[^-]*\(required\)/);
  expect(rollcall(['chat', model])).toMatchObject({ status: 0 }); // its input has ended
});
