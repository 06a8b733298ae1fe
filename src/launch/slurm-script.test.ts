import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SlurmPlan, slurmScript } from './slurm-script.ts';

const template = await readFile(new URL('../../bin/slurm.sh', import.meta.url), 'utf8');
let folder: string;
let plan: SlurmPlan;

/**
 * Slurm's commands for a script that runs outside of Slurm: nodes a to e, steps that only say how they were started, and a
 * control plane that waits for all seven.
 */
const COMMANDS = {
  scontrol: '[ "$1" = show ] && printf "%s\\n" a b c d e || echo "scontrol $*" >>"$PLACE/calls"',
  // What a node is asked at the start it answers; a blind one has lost the file that was just written.
  srun: [
    'if [[ "$*" = *"look "* ]]; then',
    '  [ -e "$PLACE/blind" ] && rm "$PLACE"/run/launch/written*',
    '  shift $(($# - 3)); exec "$@"',
    'fi',
    'line=$(for word; do [[ $word = *declare* ]] || printf "%s " "$word"; done); echo "$line" >>"$PLACE/steps"',
    'exec /bin/sleep 10',
  ].join('\n'),
  hostname: 'echo a',
  sleep: 'exec /bin/sleep 0.1',
  control: [
    'trap "exit 143" TERM',
    'echo "$*" >>"$PLACE/control"',
    'until [ "$(cat "$PLACE/steps" | wc -l)" = 7 ]; do sleep 1; done',
    'touch "$PLACE/ready"',
    'while [ -e "$PLACE/hold" ]; do sleep 1; done',
  ].join('\n'),
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-slurm-'));
  await mkdir(join(folder, 'bin'));
  for (const [name, body] of Object.entries(COMMANDS)) {
    await writeFile(join(folder, 'bin', name), `#!/bin/bash\n${body}\n`);
    await chmod(join(folder, 'bin', name), 0o755);
  }
  plan = {
    name: 'calculator',
    directory: folder,
    runDir: join(folder, 'run'),
    control: ['control', 'train', "it's.yaml"],
    resume: false,
    servers: {
      ...{ replicas: 5, perNode: 2, gpusEach: 4, gpusPerNode: 8 },
      ...{ command: ['bash', 'serve'], environment: { A: 'b c' } },
    },
    trainer: { nodes: 2, ranksPerNode: 8, gpusPerNode: 8, python: ['bash'], words: [] },
    heterogeneous: false,
    warnSeconds: 85,
    sbatch: ['--partition=gpu'],
  };
});
afterAll(() => rm(folder, { recursive: true }));

/** Runs a job's script; `signal` comes when the control plane is up. */
async function run(
  script: string,
  { signal, restarts = 0 }: { signal?: NodeJS.Signals; restarts?: number } = {},
) {
  for (const name of ['calls', 'steps', 'control', 'ready', 'hold'])
    await rm(join(folder, name), { force: true });
  if (signal) await writeFile(join(folder, 'hold'), '');
  const file = join(folder, 'job.sh');
  await writeFile(file, script);
  const child = spawn('bash', [file], {
    env: {
      ...process.env,
      PATH: `${join(folder, 'bin')}:${process.env['PATH']}`,
      PLACE: folder,
      SLURM_JOB_ID: '417',
      SLURM_JOB_NODELIST: '[a-e]',
      SLURM_RESTART_COUNT: String(restarts),
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk;
  });
  const exited = once(child, 'exit');
  while (signal && !existsSync(join(folder, 'ready'))) await new Promise((done) => setTimeout(done, 20));
  if (signal) child.kill(signal);
  const [code] = await exited;
  const read = (name: string) => readFile(join(folder, name), 'utf8').catch(() => '');
  return {
    ...{ code, said },
    control: (await read('control')).trim(),
    steps: await read('steps'),
    calls: await read('calls'),
  };
}

test('an allocation is split: trainer first, then two servers of four GPUs a node, and the control plane knows all addresses', async () => {
  const script = slurmScript(template, plan);
  expect(script).toContain(
    '#SBATCH --nodes=5\n#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n#SBATCH --gres=gpu:8',
  );
  const { code, control, steps, calls } = await run(script);
  expect(code).toBe(0);
  expect(calls).toBe('');
  // Job 417: ports from 20000 + 17 · 100 on.
  const urls = ['c:21710', 'c:21711', 'd:21710', 'd:21711', 'e:21710'].map((host) => `http://${host}`);
  expect(control).toBe(
    `train it's.yaml servers.mode=server servers.urls=[${urls}] trainer.options.url=tcp://a:21701`,
  );
  expect(steps).toContain(
    '--overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=a,b --kill-on-bad-exit=1',
  );
  expect(steps.match(/--nodelist=[cde] /g)).toHaveLength(5);
});

test('near its end a job saves the run and goes back into the queue; ended by somebody, it saves it and does not', async () => {
  const script = slurmScript(template, plan);
  const preempted = await run(script, { signal: 'SIGUSR1' });
  expect(preempted).toMatchObject({ code: 143, calls: 'scontrol requeue 417\n' });
  const stopped = await run(script, { signal: 'SIGTERM' });
  expect(stopped).toMatchObject({ code: 143, calls: '' });
});

test('a requeued job resumes the run, if there is one', async () => {
  const script = slurmScript(template, plan);
  expect((await run(script, { restarts: 1 })).control).not.toContain('--resume');
  await mkdir(plan.runDir, { recursive: true });
  await writeFile(join(plan.runDir, 'options.json'), '{}');
  expect((await run(script, { restarts: 1 })).control).toMatch(/ --resume$/);
});

test('nodes say what they see, and a job with a node that does not see the run directory ends at once', async () => {
  const script = slurmScript(template, plan);
  const seen = await run(script);
  expect(seen.said).toContain(`nodes of the servers:\na sees ${plan.runDir}/launch/written-by-job-417\n`);
  expect(seen.said).toContain(`a sees ${plan.directory}\na sees bash\n`);
  await writeFile(join(folder, 'blind'), '');
  const blind = await run(script);
  await rm(join(folder, 'blind'));
  expect(blind.code).toBe(1);
  expect(blind.said).toContain(`a does not see ${plan.runDir}/launch/written-by-job-417`);
  expect(blind.control).toBe('');
});

test('a heterogeneous job has a group of nodes for each part', () => {
  const { trainer: _, ...alone } = plan;
  const script = slurmScript(template, { ...alone, heterogeneous: true });
  expect(script).toContain(
    '#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n#SBATCH --partition=gpu\n#SBATCH hetjob\n#SBATCH --nodes=3',
  );
  expect(script).toContain('on_replica=(--het-group=1)');
  expect(script).toContain('trainer_hosts=() on_trainer=()');
});

test('a template without a place for the settings is refused', () => {
  expect(() => slurmScript('#!/bin/bash\n{{directives}}\n{{nodes}}\n', plan)).toThrow('{{settings}} 0 times');
});
