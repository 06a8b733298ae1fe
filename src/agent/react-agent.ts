import { ConfigError } from '../errors.ts';
import { loadOptional } from '../lib/optional-package.ts';
import type { Task } from '../types.ts';
import { type Agent, agent } from './agent.ts';
import type { ToolLoopOptions } from './tool-loop.ts';

/**
 * The ReAct agent of LangGraph with the run's tools: the tool loop's behaviour, limits and records, as a graph. LangGraph is
 * loaded at the first attempt, or by `prepare`.
 */
export function reactAgent<T = Task>(options: ToolLoopOptions<T>): Agent<T> {
  const { prompt, system, tools = [], toolsOf, userOf, stopWhen = [], name = 'react_agent' } = options;
  const graphs = () =>
    loadOptional(
      `the agent '${name}', a graph of LangGraph,`,
      ['@langchain/langgraph', '@langchain/core'],
      () => import('./adapters/react-graph.ts'),
    );
  const check = (task: T) => {
    if (!userOf?.(task)) return;
    throw new ConfigError(`the row has a simulated user, which '${name}' has no place for; use tool_agent`);
  };
  const reactive = agent<T>(
    async (context) => {
      const { runReactGraph } = await graphs();
      const { task, image } = context;
      check(task);
      const first = typeof prompt === 'function' ? await prompt(task, { image }) : prompt;
      const dialogue = typeof first === 'string' ? [{ role: 'user' as const, content: first }] : first;
      const offered = toolsOf?.(task);
      await runReactGraph(context, {
        messages: system === undefined ? dialogue : [{ role: 'system', content: system }, ...dialogue],
        tools: offered ? tools.filter((one) => offered.includes(one.name)) : tools,
        stopWhen,
      });
    },
    { name, tools },
  );
  return { ...reactive, check, prepare: async () => void (await graphs()) };
}
