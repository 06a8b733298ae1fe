import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import type { AgentContext } from './agent.ts';
import type { Endpoint } from './endpoint.ts';

/** What an agent from outside says of its attempt: in its last line, its response, or as a function's result. */
export interface AgentReport {
  /** What the attempt is worth; then no reward function is called. */
  readonly reward?: number;
  /** Rewards of sub-agents by name; the rest of the attempt keeps its own reward. */
  readonly agents?: Readonly<Record<string, number>>;
  /** Why the attempt failed; then it is not trained. */
  readonly error?: string;
  /** Replies by the id that the client got with them: a step reward, or out of training. */
  readonly replies?: Readonly<Record<string, { readonly reward?: number; readonly exclude?: boolean }>>;
}

const report = z.object({
  reward: z.number().optional(),
  agents: z.record(z.string(), z.number()).optional(),
  error: z.string().optional(),
  replies: z
    .record(z.string(), z.object({ reward: z.number().optional(), exclude: z.boolean().optional() }))
    .optional(),
});

/** Reads a report from data of outside; other keys are the agent's own. */
export function readReport(value: unknown, source: string): AgentReport {
  if (typeof value === 'number') return { reward: value };
  const read = report.safeParse(value);
  if (read.success) return read.data as AgentReport;
  const why = z.prettifyError(read.error).replace(/\s+/g, ' ');
  throw new ConfigError(`${source} is not {reward?, agents?, error?, replies?}: ${why}`);
}

/** Does what a report says. */
export async function obeyReport<T>(
  { reward, agents = {}, error, replies = {} }: AgentReport,
  { context, endpoint }: { readonly context: AgentContext<T>; readonly endpoint: Endpoint },
): Promise<void> {
  if (error !== undefined) throw new Error(error);
  const post = async (path: string, body: object) => {
    const answer = await endpoint.fetch(`${endpoint.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${endpoint.apiKey}` },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new ConfigError(`the agent's report: ${await answer.text()}`);
  };
  for (const [id, reply] of Object.entries(replies)) {
    const path = `/replies/${encodeURIComponent(id)}`;
    if (reply.exclude) await post(`${path}/exclude`, {});
    if (reply.reward !== undefined) await post(`${path}/reward`, { value: reply.reward });
  }
  for (const [agent, value] of Object.entries(agents)) context.reward(agent, value);
  if (reward !== undefined) context.reward(reward);
}
