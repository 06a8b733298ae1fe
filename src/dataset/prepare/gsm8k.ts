import { DatasetError } from '../../errors.ts';
import type { DataRow } from '../source.ts';
import type { Origin } from './find-files.ts';
import { type Preparation, type PreparedRow, prepareSplit, textOf } from './preparation.ts';

/** `plain`: one reply. `tool`: may check its answer with a tool. `interaction`: a user who says right or wrong. */
export const GSM8K_STYLES = ['plain', 'tool', 'interaction', 'agent-loop'] as const;
export type Gsm8kStyle = (typeof GSM8K_STYLES)[number];

const ASK = 'Think step by step and give the final answer after `####`.';
const TOOL_SYSTEM =
  'You solve grade-school maths problems. Reason step by step first. Then call the `calc_gsm8k_reward` tool with ' +
  'your answer at least once, and correct yourself if the tool says it is wrong. End with `#### <answer>`.';
const INTERACTION_SYSTEM =
  'You solve grade-school maths problems. Reason step by step and end with `#### <answer>`. If you are told that ' +
  'the answer is wrong, look for the mistake and try again.';

export async function prepareGsm8k(origin: Origin, style: Gsm8kStyle): Promise<Preparation> {
  const split = (name: string) =>
    prepareSplit(origin, name, (row, index) => gsm8kRow(row, index, name, style), 'main');
  return { train: await split('train'), test: await split('test') };
}

function gsm8kRow(row: DataRow, index: number, split: string, style: Gsm8kStyle): PreparedRow {
  const question = textOf(row, 'question');
  const answer = textOf(row, 'answer');
  const solution = /#### (-?[0-9.,]+)/.exec(answer)?.[1]?.replaceAll(',', '');
  if (solution === undefined)
    throw new DatasetError(`column answer has no \`#### number\`: ${JSON.stringify(answer)}`);
  const asked = `${question} ${ASK}`;
  const withTool = style === 'tool' || style === 'agent-loop';
  const system = withTool ? TOOL_SYSTEM : style === 'interaction' ? INTERACTION_SYSTEM : undefined;
  return {
    data_source: 'openai/gsm8k',
    ...(style === 'agent-loop' && { agent_name: 'tool_agent' }),
    prompt: [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: asked }],
    ability: 'math',
    reward_model: { style: 'rule', ground_truth: solution },
    extra_info: {
      split,
      index,
      answer,
      question,
      ...(withTool && {
        need_tools_kwargs: true,
        tools_kwargs: { calc_gsm8k_reward: { create_kwargs: { ground_truth: solution } } },
      }),
      ...(style !== 'plain' && {
        interaction_kwargs: {
          ...(style === 'interaction' && { name: 'gsm8k' }),
          query: question,
          ground_truth: solution,
        },
      }),
    },
  };
}
