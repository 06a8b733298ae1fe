/**
 * Tools that tell a model how good its answer is: verl's `Gsm8kTool` and `Geo3kTool`. The right answer comes with
 * the row (`tools_kwargs.NAME.create_kwargs.ground_truth`). A call that does not improve on the last one costs 0.05.
 */
import { ConfigError } from '../../errors.ts';
import { isSameNumber } from '../../lib/answers.ts';
import { mathsEqual } from '../../lib/maths/maths-equal.ts';
import type { ToolSchema } from '../../types.ts';
import { type ClassTool, classTool, type ResultLimits } from '../class-tool.ts';
import type { Tool } from '../tool.ts';

const answerSchema = (name: string, what: string): ToolSchema => ({
  type: 'function',
  function: {
    name,
    description: `A tool for calculating the reward of ${what} (1.0 if your answer is correct, 0.0 if not).`,
    parameters: {
      type: 'object',
      properties: { answer: { type: 'string', description: 'The answer to check.' } },
      required: ['answer'],
    },
  },
});

export const GSM8K_SCHEMA = answerSchema('calc_gsm8k_reward', 'gsm8k');
export const GEO3K_SCHEMA = answerSchema('calc_geo3k_reward', 'geo3k');

export function gsm8kTool(schema = GSM8K_SCHEMA, limits: ResultLimits = {}): Tool {
  return classTool(answerTool(schema.function.name, isSameNumber), schema, limits);
}

export function geo3kTool(schema = GEO3K_SCHEMA, limits: ResultLimits = {}): Tool {
  return classTool(answerTool(schema.function.name, mathsEqual), schema, limits);
}

const PENALTY = -0.05;

function answerTool(name: string, isRight: (answer: string, truth: string) => boolean): ClassTool {
  const instances = new Map<string, { readonly truth: string; reward: number }>();
  const truthOf = ({ ground_truth: truth }: Readonly<Record<string, unknown>>): string => {
    if (truth !== undefined && truth !== null) return String(truth);
    throw new ConfigError(
      `the tool ${name} compares answers with extra_info.tools_kwargs.${name}.create_kwargs.ground_truth, which the row ` +
        "does not have; give it, or leave the tool out of the row's column tools",
    );
  };
  return {
    check: truthOf,
    create: (id, kwargs) => {
      instances.set(id, { truth: truthOf(kwargs), reward: 0 });
    },
    execute: (id, { answer }) => {
      const instance = instances.get(id)!;
      const given = String(answer);
      const reward = isRight(given, instance.truth) ? 1 : 0;
      const stepReward = reward > instance.reward ? 0 : PENALTY;
      instance.reward = reward;
      return [`Current parsed answer='${given}' reward=${reward.toFixed(1)}`, stepReward, {}];
    },
    calcReward: (id) => instances.get(id)?.reward ?? 0,
    release: (id) => {
      instances.delete(id);
    },
  };
}
