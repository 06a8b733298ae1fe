/** An agent that is a service elsewhere: called with the task and the model's endpoint, once per attempt. */
import { ToolError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import { keepNamedSecrets } from '../lib/secrets.ts';
import { semaphore } from '../lib/semaphore.ts';
import type { Task } from '../types.ts';
import { type Agent, type AgentContext, agent } from './agent.ts';
import { obeyReport, readReport } from './agent-report.ts';

/** Options of `remoteAgent`: where the service is, and when it is done. */
export interface RemoteAgentOptions<T = Task> {
  /** Gets a POST per attempt: `{ task, taskIndex, attempt, id, openai, anthropic, apiKey, url, seconds }`. */
  readonly url: string | ((context: Pick<AgentContext<T>, 'task' | 'taskIndex' | 'attempt'>) => string);
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * `response`, the default: the attempt is done when the service answers, with a report in JSON or nothing. `complete`: the
   * service answers at once, and the attempt lasts until it posts to `url` + `/complete`.
   */
  readonly done?: 'response' | 'complete';
  /** Attempts at once. */
  readonly atOnce?: number;
  readonly name?: string;
}

const MOST_SHOWN = 500;
/** Statuses that another try may change: the service is starting, busy or behind something that is. */
const AGAIN = new Set([408, 425, 429, 502, 503, 504]);

/**
 * An agent from a service. A status of 4xx or 500 is a failed attempt; a service that cannot be reached is tried again.
 * The option `endpoint.publicUrl` of the run is how a service on another machine reaches the model.
 */
export function remoteAgent<T = Task>(options: RemoteAgentOptions<T>): Agent<T> {
  const { atOnce, name = 'remote' } = options;
  const calls = semaphore(atOnce ?? Number.POSITIVE_INFINITY);
  return agent<T>((context) => calls.run(() => call(context, options), context.signal), {
    name,
    ...(atOnce === undefined ? {} : { atOnce }),
  });
}

async function call<T>(
  context: AgentContext<T>,
  { url, headers = {}, done = 'response' }: RemoteAgentOptions<T>,
): Promise<void> {
  const { task, taskIndex, attempt, limits, signal } = context;
  keepNamedSecrets(headers);
  const endpoint = await context.endpoint();
  const { openai, anthropic, apiKey } = endpoint;
  const address = typeof url === 'function' ? url(context) : url;
  const response = await fetch(address, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      task,
      taskIndex,
      attempt,
      id: context.trajectory().id,
      openai,
      anthropic,
      apiKey,
      url: endpoint.url,
      seconds: limits.secondsPerTrajectory,
    }),
    signal,
  }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new ToolError(`the agent at ${address} cannot be reached: ${causeOf(error)}`);
  });
  const text = await response.text();
  if (!response.ok) {
    const message = `the agent at ${address} answered with ${response.status}: ${text.slice(0, MOST_SHOWN)}`;
    throw AGAIN.has(response.status) ? new ToolError(message) : new Error(message);
  }
  const report =
    done === 'complete'
      ? await unlessAborted(endpoint.completed, signal)
      : readReport(parse(text), `the answer of ${address}`);
  await obeyReport(report, { context, endpoint });
}

function unlessAborted<R>(work: Promise<R>, signal: AbortSignal): Promise<R> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** An answer that is not JSON says nothing of the attempt. */
function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** `fetch failed` hides why. */
function causeOf(error: unknown): string {
  return messageOf(error instanceof Error && error.cause ? error.cause : error);
}
