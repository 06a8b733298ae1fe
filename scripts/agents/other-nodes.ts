/** The same program on Node 20, 22 and 24: the same tokens and weights, though its tool throws what each JavaScript engine words otherwise. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Aim, atLeast, holds } from '../verdict.ts';

const FILES = [
  'trajectories/step_1.tokens',
  'trajectories/step_2.tokens',
  'checkpoints/global_step_2/model.safetensors',
];

const runFile = (model: string) => `
import { tool, toolLoop } from 'rollcall';
import { calculate } from '${resolve('examples/agents/calculate.ts')}';
import { options as given } from '${resolve('examples/agents/train.ts')}';

const calculator = tool({
  name: 'calculator',
  description: 'One operation on two numbers.',
  input: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
  run: ({ expression }) => (expression.includes('-') ? JSON.parse('[' + expression) : calculate(expression)),
});
export const options = {
  ...given,
  model: ${JSON.stringify(model)},
  agent: toolLoop({ prompt: ({ question }) => question, tools: [calculator] }),
  steps: 2, tasksPerStep: 8, attemptsPerTask: 4,
  evaluation: { every: 0, before: false },
  checkpoints: { every: 2 },
};
`;

export function proveOtherNodes(setup: {
  readonly model: string;
  readonly folder: string;
  /** The programs, by version. */
  readonly nodes: Readonly<Record<string, string>>;
}): { readonly aims: readonly Aim[]; readonly figures: object } {
  const file = join(setup.folder, 'train.ts');
  writeFileSync(file, runFile(setup.model));
  const runs = Object.entries(setup.nodes).map(([version, node]) => {
    const run = join(setup.folder, `node-${version}`);
    const words = [resolve('bin/rollcall.js'), 'train', file, '--run', run];
    execFileSync(node, words, { stdio: ['ignore', 'ignore', 'inherit'] });
    return { version, bytes: FILES.map((name) => readFileSync(join(run, name))), run };
  });
  const [first, ...others] = runs as [(typeof runs)[0], ...typeof runs];
  const told = readFileSync(join(first.run, 'trajectories/step_1.jsonl'), 'utf8');
  const failed = told.split('"kind":"tool-threw"').length - 1;
  return {
    aims: [
      atLeast('calls whose tool threw an error of the JavaScript engine', failed, 1),
      ...others.map(({ version, bytes }) => {
        const same = bytes.map((one, at) => one.equals(first.bytes[at]!));
        return holds(
          `Node ${version}: tokens and weights of two steps are those of Node ${first.version}`,
          same.every(Boolean),
          same,
        );
      }),
    ],
    figures: { versions: runs.map(({ version }) => version), failed },
  };
}
