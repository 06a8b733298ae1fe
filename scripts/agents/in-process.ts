/** The same agent with each framework, in this process: whole replies and streamed. */
import { HumanMessage } from '@langchain/core/messages';
import { tool as langChainTool } from '@langchain/core/tools';
import { tool as agentsTool, Agent as OpenAIAgent, Runner } from '@openai/agents-core';
import { tool as aiTool, generateText, jsonSchema, stepCountIs, streamText } from 'ai';
import { createAgent } from 'langchain';
import { type Agent, type AgentContext, agent, type Tool } from 'rollcall';
import { builtInAgents } from 'rollcall/agents';
import { languageModel } from 'rollcall/ai-sdk';
import { chatModel, recursionLimit } from 'rollcall/langchain';
import { modelProvider } from 'rollcall/openai-agents';
import type { Problem } from '../../examples/agents/tool-loop.ts';

type Run = (context: AgentContext<Problem>) => Promise<unknown>;

/** Agents by name; each offers the one tool, whose schema it passes on as it is. */
export function frameworkAgents(
  given: Tool,
  answer: (input: unknown) => string,
): Record<string, Agent<Problem>> {
  const { name, description, parameters } = given.schema.function;
  const aiSdk = {
    [name]: aiTool({ description, inputSchema: jsonSchema({ ...parameters }), execute: answer }),
  };
  const inGraph = langChainTool(answer, { name, description, schema: { ...parameters } });
  const mathematician = new OpenAIAgent({
    name: 'mathematician',
    tools: [
      agentsTool({
        name,
        description,
        parameters: { ...parameters } as never,
        strict: false,
        execute: answer,
      }),
    ],
  });
  const asked = ({ task, model, limits, signal }: AgentContext<Problem>) => ({
    model: languageModel(model),
    tools: aiSdk,
    prompt: task.question,
    stopWhen: stepCountIs(limits.turns),
    abortSignal: signal,
  });
  const graphOf = ({ model, limits, task, signal }: AgentContext<Problem>) => ({
    graph: createAgent({ model: chatModel(model), tools: [inGraph] }),
    input: { messages: [new HumanMessage(task.question)] },
    config: { recursionLimit: recursionLimit(limits), signal },
  });
  const runs: Record<string, Run> = {
    'AI SDK': (context) => generateText(asked(context)),
    'AI SDK, streamed': async (context) => {
      const { fullStream } = streamText({
        ...asked(context),
        onError: ({ error }) => {
          throw error;
        },
      });
      for await (const part of fullStream) if (part.type === 'error') throw part.error;
    },
    'LangGraph, whole': (context) => {
      const { graph, input, config } = graphOf(context);
      return graph.invoke(input, config);
    },
    'LangGraph, streamed': async (context) => {
      const { graph, input, config } = graphOf(context);
      for await (const _ of await graph.stream(input, { ...config, streamMode: 'messages' }));
    },
    'OpenAI Agents': ({ model, task, limits, signal }) =>
      new Runner({ modelProvider: modelProvider(model), tracingDisabled: true }).run(
        mathematician,
        task.question,
        {
          maxTurns: limits.turns,
          signal,
        },
      ),
    'OpenAI Agents, streamed': async ({ model, task, limits, signal }) => {
      const runner = new Runner({ modelProvider: modelProvider(model), tracingDisabled: true });
      const result = await runner.run(mathematician, task.question, {
        maxTurns: limits.turns,
        signal,
        stream: true,
      });
      for await (const _ of result);
      await result.completed;
    },
  };
  const { tool_agent, react_agent } = builtInAgents<Problem>({
    prompt: ({ question }) => question,
    tools: [given],
  });
  return {
    ...Object.fromEntries(
      Object.entries(runs).map(([title, run]) => [
        title,
        agent<Problem>(async (context) => void (await run(context))),
      ]),
    ),
    tool_agent: tool_agent!,
    react_agent: react_agent!,
  };
}
