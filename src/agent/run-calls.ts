import type { ReplySampler } from '../chat/reply-sampler.ts';
import type { Clock } from '../lib/clock.ts';
import type { Spans } from '../lib/spans.ts';
import type { ToolCall, ToolRun } from '../types.ts';
import type { Ending } from './ending.ts';
import type { Limits } from './limits.ts';
import { type RunToolOutcome, runTool } from './run-tool.ts';
import type { TextTokens } from './shorten.ts';
import type { Tool } from './tool.ts';
import type { ToolStates } from './tool-states.ts';

/** What the tools of a trajectory share. */
export interface ToolSetting {
  readonly states: ToolStates;
  readonly limits: Limits;
  readonly tokens: TextTokens;
  readonly clock: Clock;
  readonly ending: Ending;
  readonly spans: Spans;
}

/**
 * Runs the calls of a turn's reply at once, if `checkObeyed` lets it. An environment that fails ends the trajectory; what
 * did run is returned.
 */
export function callRunner(
  tools: readonly Tool[],
  checkObeyed: (turn: number) => void,
  setting: ToolSetting,
): ReplySampler['run'] {
  const { limits, ending } = setting;
  return async (turn, calls) => {
    checkObeyed(turn);
    const run = calls.slice(0, limits.callsPerTurn);
    const outcomes = await Promise.all(run.map((call) => runTimed(turn, call, tools, setting)));
    const failed = outcomes.find((outcome) => outcome.kind === 'environment');
    if (failed) ending.finish({ kind: 'failed', boundary: 'environment', message: failed.error.message });
    return [
      ...outcomes.flatMap((outcome) => (outcome.kind === 'ran' ? [outcome.run] : [])),
      ...calls.slice(limits.callsPerTurn).map((call) => tooMany(call, limits.callsPerTurn)),
    ];
  };
}

async function runTimed(
  turn: number,
  call: ToolCall,
  tools: readonly Tool[],
  { states, limits, tokens, clock, ending, spans }: ToolSetting,
): Promise<RunToolOutcome> {
  const start = clock.now();
  const contextOf = (tool: Tool) => states.contextOf(tool);
  const outcome = await spans.during({ kind: 'tool', name: call.name, turn }, () =>
    runTool(call, { tools, limits, tokens, clock, signal: ending.signal, contextOf }),
  );
  const problem = outcome.kind === 'ran' ? outcome.run.problem : undefined;
  const attributes = problem && { problem: problem.kind };
  spans.add({ kind: 'tool', name: call.name, turn, start, attributes });
  return outcome;
}

/** Exactly one answer per call: for one that is not run, the reason. */
function tooMany(call: ToolCall, limit: number): ToolRun {
  const message = `Not run: at most ${limit} tool call${limit === 1 ? ' is' : 's are'} run per reply. Call again if needed.`;
  return {
    call,
    result: message,
    problem: { kind: 'too-many-calls', message, source: call.name },
    milliseconds: 0,
  };
}
