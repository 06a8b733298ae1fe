/** What tests of the endpoint share: an attempt of a client against a scripted engine, and the official clients. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { type AgentContext, agent, rollout } from 'rollcall';
import type { Endpoint } from 'rollcall/agents';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import { ENDPOINT_RULES } from '../src/agent/endpoint.ts';
import { type DoorOptions, openDoor } from '../src/serve/endpoint/door.ts';

export const { tokenizer, format } = byteModel();

interface PlayOptions extends Partial<Parameters<typeof rollout>[0]> {
  readonly rules?: Partial<DoorOptions>;
  readonly engine?: Partial<ScriptedEngineOptions>;
}

/** One attempt, with a door that has these rules. What `run` expects in vain fails the test, not only the attempt. */
export async function play(
  run: (endpoint: Endpoint, context: AgentContext) => Promise<unknown>,
  reply: ScriptedEngineOptions['reply'],
  { rules = {}, engine = {}, ...options }: PlayOptions = {},
) {
  const server = scriptedEngine({ tokenizer, reply, ...engine });
  const door = openDoor({ ...ENDPOINT_RULES, ...rules });
  let unmet: Error | undefined;
  const client = async (context: AgentContext) => {
    try {
      await run(await context.endpoint(), context);
    } catch (error) {
      if (error instanceof Error && error.name === 'AssertionError') unmet = error;
      throw error;
    }
  };
  try {
    const [group] = await rollout({
      tasks: [{ index: 0, task: {} }],
      attempts: 1,
      step: 1,
      agent: agent(client),
      server,
      format,
      rewards: [],
      seed: 1,
      door,
      failures: { tolerateShare: 1 }, // an agent that is refused has not asked the model
      ...options,
    });
    if (unmet) throw unmet;
    return { trajectory: group!.attempts[0]!.trajectory, server };
  } finally {
    await door.close();
  }
}

// Without a socket.
export const openaiOf = ({ openai, apiKey, fetch }: Endpoint) =>
  new OpenAI({ baseURL: openai, apiKey, fetch, maxRetries: 0 });
export const anthropicOf = ({ anthropic, apiKey, fetch }: Endpoint) =>
  new Anthropic({ baseURL: anthropic, apiKey, fetch, maxRetries: 0 });

export const GO = { role: 'user' as const, content: 'go' };

export const ask = (endpoint: Endpoint, body: object) =>
  openaiOf(endpoint).chat.completions.create({
    model: 'policy',
    messages: [GO],
    ...body,
  } as OpenAI.ChatCompletionCreateParamsNonStreaming);

/** A request in the client's own words. */
export const post = async ({ fetch, openai, apiKey }: Endpoint, path: string, body: unknown) => {
  const response = await fetch(`${openai}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}` },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as { error?: { message: string } } };
};
