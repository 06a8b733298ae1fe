/**
 * One tool call: found, checked, run within its time, shortened. Never throws: what the model did wrong becomes a
 * `Problem` and a text that tells it so; what it cannot help (the environment) comes back as such.
 */
import { ToolError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import { messageForModel } from '../lib/error-message.ts';
import { hideSecrets } from '../lib/secrets.ts';
import { TimeLimitReached, withTimeLimit } from '../lib/time-limit.ts';
import type { Content, Problem, ToolCall, ToolRun } from '../types.ts';
import type { Limits } from './limits.ts';
import { shortenToCharacters, shortenToTokens, type TextTokens } from './shorten.ts';
import type { Tool, ToolContext, ToolResult } from './tool.ts';

export interface RunToolOptions {
  readonly tools: readonly Tool[];
  readonly limits: Pick<Limits, 'toolTimeoutMs' | 'tokensPerToolResult'>;
  readonly tokens: TextTokens;
  readonly clock: Clock;
  /** The trajectory's: aborts when it is out of time or cancelled. */
  readonly signal: AbortSignal;
  /** Opens the tool for the trajectory, at its first call; rejects with ToolError. */
  contextOf(tool: Tool): Promise<ToolContext<unknown>>;
}

export type RunToolOutcome =
  | { readonly kind: 'ran'; readonly run: ToolRun }
  /** The environment failed, not the model. */
  | { readonly kind: 'environment'; readonly error: ToolError }
  /** The trajectory's signal aborted. */
  | { readonly kind: 'stopped' };

/** What the model reads when it calls a tool that it was not offered. */
export const unknownToolMessage = (name: string, offered: readonly string[]) =>
  `Unknown tool '${name}'. Available tools: ${offered.join(', ') || 'none'}.`;

export async function runTool(call: ToolCall, options: RunToolOptions): Promise<RunToolOutcome> {
  const began = options.clock.now();
  const ran = (rest: Omit<ToolRun, 'call' | 'milliseconds'>): RunToolOutcome => ({
    kind: 'ran',
    run: { call, ...rest, milliseconds: options.clock.now() - began },
  });
  const mistake = (kind: Problem['kind'], message: string): RunToolOutcome => {
    const told = shortenToTokens(
      hideSecrets(message),
      options.limits.tokensPerToolResult,
      'head',
      options.tokens,
    );
    return ran({ result: told, problem: { kind, message: told, source: call.name } });
  };

  const tool = options.tools.find(({ name }) => name === call.name);
  if (!tool) {
    const names = options.tools.map(({ name }) => name);
    return mistake('unknown-tool', unknownToolMessage(call.name, names));
  }
  const timeoutMs = tool.timeoutMs ?? options.limits.toolTimeoutMs;
  try {
    const checked = await tool.input.check(call.arguments);
    if ('wrong' in checked) {
      return mistake('bad-arguments', `Invalid arguments for '${tool.name}': ${checked.wrong.join('; ')}.`);
    }
    const context = await options.contextOf(tool);
    const execute = () =>
      withTimeLimit(async (signal) => readOutput(await tool.run(checked.input, { ...context, signal })), {
        milliseconds: timeoutMs,
        clock: options.clock,
        signal: options.signal,
      });
    const { result, cached } = tool.pure
      ? await remembered(tool, call.arguments, execute)
      : await fresh(execute);
    return ran({
      result: contentOf(result, tool, options),
      ...(result.reward === undefined ? {} : { reward: result.reward }),
      ...(result.metrics === undefined ? {} : { metrics: result.metrics }),
      ...(cached ? { cached } : {}),
    });
  } catch (error) {
    if (options.signal.aborted) return { kind: 'stopped' };
    if (error instanceof ToolError) return { kind: 'environment', error };
    if (error instanceof TimeLimitReached) {
      return mistake(
        'tool-timeout',
        `Tool '${tool.name}' was stopped: it took longer than ${timeoutMs / 1000} s.`,
      );
    }
    const prefix = `Error executing tool '${tool.name}': `;
    const message = messageForModel(error);
    return mistake('tool-threw', message.startsWith(prefix) ? message : prefix + message); // a served tool has said it
  }
}

function contentOf(
  { content: said, images = [] }: ToolResult,
  tool: Tool,
  { limits, tokens }: RunToolOptions,
): Content {
  const content = hideSecrets(said);
  const short =
    tool.charactersPerResult === undefined
      ? content
      : shortenToCharacters(content, tool.charactersPerResult, tool.keep);
  const text = shortenToTokens(short, tool.tokensPerResult ?? limits.tokensPerToolResult, tool.keep, tokens);
  if (images.length === 0) return text;
  return [
    ...images.map((image) => ({ type: 'image', image }) as const),
    ...(text === '' ? [] : [{ type: 'text', text } as const]),
  ];
}

/** Whatever a tool returns, in the long form. */
function readOutput(output: unknown): ToolResult {
  if (output === undefined || output === null) return { content: '' };
  if (typeof output !== 'object') return { content: String(output) };
  const { content, images, reward, metrics, ...others } = output as Partial<ToolResult>;
  if (typeof content !== 'string' || Object.keys(others).length > 0)
    return { content: JSON.stringify(output) };
  return {
    content,
    ...(images === undefined ? {} : { images }),
    ...(reward === undefined ? {} : { reward }),
    ...(metrics === undefined ? {} : { metrics }),
  };
}

const fresh = async (execute: () => Promise<ToolResult>) => ({ result: await execute(), cached: false });

/** Results of pure tools, oldest forgotten first. What failed is not remembered. */
const memory = new WeakMap<Tool, Map<string, ToolResult>>();
const REMEMBERED_PER_TOOL = 10_000;

async function remembered(tool: Tool, given: ToolCall['arguments'], execute: () => Promise<ToolResult>) {
  const results = memory.get(tool) ?? new Map<string, ToolResult>();
  memory.set(tool, results);
  const key = JSON.stringify(given); // as the model wrote them: what a schema makes of them may have no JSON
  const known = results.get(key);
  if (known) return { result: known, cached: true };
  const result = await execute();
  results.set(key, result);
  if (results.size > REMEMBERED_PER_TOOL) results.delete(results.keys().next().value!);
  return { result, cached: false };
}
