import pc from 'picocolors';
import type { Content } from '../types.ts';
import { adviceFor } from '../watch/failure-advice.ts';
import { endName } from '../watch/rollout-metrics.ts';
import type { StoredTokens, StoredTrajectory } from '../watch/trajectory-store.ts';

/** Text of a run of ids. Tokens that only together make a character are decoded together. */
export type Decode = (ids: Int32Array) => string;

/** A trajectory for the terminal: how it ended, what it was worth, and every token in the colour of its role. */
export function printTrajectory(
  trajectory: StoredTrajectory,
  segments: readonly Pick<StoredTokens, 'ids' | 'sampled' | 'trained' | 'advantages'>[],
  decode: Decode,
): string {
  const lines = [heading(trajectory)];
  for (const [number, segment] of segments.entries()) {
    const agent = agentOf(trajectory, number);
    const named = agent === undefined ? '' : `, agent ${agent}`;
    if (segments.length > 1) lines.push(pc.dim(`segment ${number + 1} of ${segments.length}${named}`));
    lines.push(paintTokens(segment, decode), '');
  }
  for (const [at, turn] of trajectory.turns.entries()) {
    const where = pc.dim(`  turn ${at + 1}${segments.length > 1 ? `, segment ${turn.segment + 1}` : ''}: `);
    for (const { call, result, problem } of turn.toolRuns) {
      const told = problem ? pc.red(` ${problem.kind}: ${problem.message}`) : '';
      const asked = pc.dim(`${call.name}(${JSON.stringify(call.arguments)}) → `);
      lines.push(`${where}${asked}${shorten(textOf(result), 80)}${told}`);
    }
    for (const problem of turn.problems)
      lines.push(`${where}${pc.red(`${problem.kind}: ${problem.message}`)}`);
  }
  return lines.join('\n');
}

/** The name of the agent that speaks in a segment. */
function agentOf({ chats, turns }: StoredTrajectory, segment: number): string | undefined {
  const place = turns.find((turn) => turn.segment === segment)?.message ?? -1;
  return chats.find(({ start, end }) => place >= start && place < end)?.agent;
}

export const LEGEND = `${pc.green('sampled and trained')}  ${pc.yellow('sampled, not trained')}  ${pc.dim('context')}`;

function heading({ id, end, reward, rewards, turns, agentRewards = {} }: StoredTrajectory): string {
  const parts = [
    pc.bold(id),
    endName(end),
    `${turns.length} turn${turns.length === 1 ? '' : 's'}`,
    `reward ${reward ?? 'none'}`,
  ];
  const names = Object.entries(rewards).map(([name, value]) => `${name} ${round(value)}`);
  if (names.length > 1) parts.push(`(${names.join(', ')})`);
  for (const [agent, value] of Object.entries(agentRewards)) parts.push(`${agent} ${round(value)}`);
  if (end.kind !== 'failed') return parts.join('  ');
  const { cause, suggestion } = adviceFor(end);
  return `${parts.join('  ')}  ${pc.red(`${cause}: ${end.message}`)}\n${pc.dim(suggestion)}`;
}

function paintTokens(
  { ids, sampled, trained }: Pick<StoredTokens, 'ids' | 'sampled' | 'trained'>,
  decode: Decode,
): string {
  const painted: string[] = [];
  const role = (at: number) => (trained[at] ? pc.green : sampled[at] ? pc.yellow : pc.dim);
  for (let start = 0; start < ids.length; ) {
    let end = start + 1;
    while (end < ids.length && role(end) === role(start)) end++;
    // Line by line, because some terminals drop a colour at the end of a line.
    painted.push(decode(ids.subarray(start, end)).split('\n').map(role(start)).join('\n'));
    start = end;
  }
  return painted.join('');
}

export function textOf(content: Content): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => (part.type === 'text' ? part.text : `[image ${part.image.width}×${part.image.height}]`))
    .join('');
}

function shorten(text: string, width: number): string {
  const line = text.replaceAll('\n', ' ⏎ ');
  return line.length > width ? `${line.slice(0, width - 1)}…` : line;
}

function round(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}
