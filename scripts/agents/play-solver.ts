/** Plays a problem with the `solver` of a file, and prints what came of it: the frameworks' proof runs this on another Node. */
import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Agent, rollout } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import type { Problem } from '../../examples/agents/tool-loop.ts';
import { options } from '../../examples/agents/train.ts';

const { solver } = (await import(pathToFileURL(resolve(process.argv[2]!)).href)) as {
  solver: Agent<Problem>;
};
const { tokenizer, format } = byteModel();
const call = (expression: string) =>
  `<tool_call>{"name": "calculator", "arguments": {"expression": "${expression}"}}</tool_call>`;
const replies = [
  call('44*38'),
  '<tool_call>{"name": "calculator",</tool_call>',
  call('1672-595'),
  'The answer is 1077.',
];
const engine = scriptedEngine({ tokenizer, reply: ({ turn }) => replies[turn]! });
const [group] = await rollout({
  agent: solver,
  rewards: options.rewards,
  format,
  seed: 1,
  step: 1,
  attempts: 1,
  tasks: [{ index: 0, task: await options.tasks.at(0) }],
  server: engine,
});
const { reward, trajectory } = group!.attempts[0]!;
const sampled = trajectory.segments.flatMap(({ ids, trained }) => [...ids].filter((_, at) => trained[at]));
console.log(
  JSON.stringify({
    node: process.version,
    end: trajectory.end.kind,
    reward,
    segments: trajectory.segments.length,
    results: trajectory.turns.flatMap(({ toolRuns }) => toolRuns.map(({ result }) => result)),
    areEngineTokens: sampled.join() === engine.replies.flatMap(({ ids }) => [...ids]).join(),
    tokens: createHash('sha256')
      .update(trajectory.segments.map(({ ids }) => ids.join()).join(' '))
      .digest('hex')
      .slice(0, 12),
  }),
);
