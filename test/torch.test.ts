/** The PyTorch trainer in a process of its own, where torch is installed. `npm run prove torch` shows more. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { defaultPython } from '../src/torch/environment.ts';
import { torch } from '../src/torch/torch.ts';
import { readEngineGolden, relativeError } from './golden/engine/golden.ts';

const python = defaultPython();
const hasTorch = spawnSync(python, ['-c', 'import torch, transformers']).status === 0;
if (!hasTorch)
  console.warn(`the PyTorch trainer is not tested here: ${python} has no torch; rollcall torch install`);

const golden = readEngineGolden('test/golden/engine/qwen3');
const scoring = { temperature: golden.temperature, outputs: golden.names };

test.skipIf(!hasTorch)(
  'a worker agrees with float64, and after kill -9 a new one stands where it stood',
  { timeout: 300_000 },
  async () => {
    const lines: string[] = [];
    const trainer = await torch({ device: 'cpu', threads: 1, log: (line) => lines.push(line) }).open(
      'critic',
      golden.directory,
    );
    try {
      const step = async (between = () => {}) => {
        const pass = await trainer.forward(golden.rows, scoring);
        between();
        await pass.backward(golden.gradientsByOutput);
        return { pass, told: await trainer.optimStep(golden.adam) };
      };
      const first = await step();
      for (const name of golden.names) {
        for (const [row, expected] of golden.outputs[name]!.entries()) {
          expect(relativeError(first.pass.outputs[name]![row]!, expected)).toBeLessThan(1e-5);
        }
      }
      expect(Math.abs(first.told.gradNorm / golden.gradNorm - 1)).toBeLessThan(1e-5);
      const undisturbed = await step();
      await trainer.load(golden.directory);
      await step();
      const disturbed = await step(() => process.kill(workerOf(process.pid)!, 'SIGKILL'));
      expect(lines.filter((line) => line.includes('started again'))).toHaveLength(1);
      expect(disturbed.told).toEqual(undisturbed.told);
      expect(disturbed.pass.outputs).toEqual(undisturbed.pass.outputs);
    } finally {
      await trainer.close();
    }
  },
);

test.skipIf(!hasTorch)(
  'a model that is not there is refused in words, and leaves no process',
  {
    timeout: 300_000,
  },
  async () => {
    const { open } = torch({ device: 'cpu', log: () => {} });
    await expect(open('policy', '/nowhere')).rejects.toThrow(
      /\/nowhere: no model configuration could be read/,
    );
    expect(workerOf(process.pid)).toBeUndefined();
  },
);

/** The worker among the children of this process. */
function workerOf(pid: number): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)
    .map(Number);
  const isWorker = (child: number) =>
    readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('rollcall_torch');
  return children.find(isWorker);
}
