import { z } from 'zod';
import { kind, number, orNull } from '../../lib/setting.ts';
import { type About, anything, means, shown, type VerlRow } from '../row.ts';
import { orNoLimit } from './words.ts';

const AGENT_LOOP_CONFIG = 'actor_rollout_ref.rollout.agent_loop_config';

/** An agent of the user's is given all arguments; the built-in ones understand those that have a row below. */
const isOwnAgent = (module: unknown) => typeof module === 'string' && module.includes('#');

/** An argument that the built-in agents follow as an option of ours. */
function agentArgument<S extends z.ZodType>(
  name: string,
  to: string,
  takes: S,
  samples: readonly [unknown, unknown],
  read: (value: z.output<S>) => unknown,
  about: About = {},
): VerlRow {
  return means(
    `${AGENT_LOOP_CONFIG}.${name}`,
    to,
    takes,
    samples,
    (value, { option }) => ({
      [to]: read(value),
      ...(isOwnAgent(option('agent.module')) && { [`agent.config.${name}`]: value }),
    }),
    { late: true, ...about },
  );
}

const asIs = (value: unknown) => value;
const flagOrText = kind(z.union([z.boolean(), z.string()]), 'use true, false or a text');
const flagOrNumber = kind(z.union([z.boolean(), z.number()]), 'use true, false or a number');

const NAMED: readonly VerlRow[] = [
  agentArgument('max_turns', 'limits.turns', orNull(number), [10, 5], orNoLimit),
  agentArgument('tools', 'tools.names', anything, [['calculator'], ['calculator', 'search']], asIs, {
    values: 'a list of names',
  }),
  agentArgument('stop_on_correct', 'agent.stopOnCorrect', anything, [true, false], asIs),
  agentArgument(
    'stop_on_final_answer',
    'agent.stopOnText',
    flagOrText,
    [true, '##DONE##'],
    (given) => (typeof given === 'string' ? [given] : given ? ['Final Answer'] : []),
    { note: 'a reply with this text is the last; true: `Final Answer`' },
  ),
  agentArgument(
    'stop_on_repetition',
    'agent.stopOnRepetition',
    flagOrNumber,
    [true, 3],
    (given) => (given === true ? 2 : given === false ? null : given),
    { note: 'this many equal replies in a row; true: 2' },
  ),
  agentArgument('max_tool_failures', 'agent.stopOnToolFailures', anything, [3, 5], asIs),
];

const NAMES = NAMED.map(({ key }) => key.slice(AGENT_LOOP_CONFIG.length + 1)).join(', ');

/** `agent_loop_config.*`: arguments of the agent loop. */
export const AGENT_ARGUMENTS: readonly VerlRow[] = [
  ...NAMED,
  means(
    `${AGENT_LOOP_CONFIG}.*`,
    'agent.config',
    anything,
    [1, 2],
    (value, { key, option }) =>
      isOwnAgent(option('agent.module'))
        ? { [`agent.config.${key}`]: value }
        : {
            refuse: `${AGENT_LOOP_CONFIG}.${key}=${shown(value)}: no agent takes it; the built-in one takes ${NAMES}, and an agent_loop_class of yours (path.ts#Export) is given them all`,
          },
    {
      note: 'any other argument of an agent_loop_class of yours',
      values: 'any',
      late: true,
      beside: { 'actor_rollout_ref.rollout.agent_loop_class': 'agents.ts#Mine' },
    },
  ),
];
