import { createHash } from 'node:crypto';
import type { Scored, Span, ToolRun, Trajectory, Turn } from '../../types.ts';
import { genAiMessages } from './gen-ai-messages.ts';

/**
 * A trajectory as OpenTelemetry spans with the GenAI conventions: a root `invoke_agent`, below it `chat`,
 * `execute_tool`, and what the conventions do not know (`interaction`, `reward`, `wait`) under plain names.
 */
export interface TraceSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly end: number;
  /** What went wrong, if something did. */
  readonly error: string | undefined;
  readonly attributes: Record<string, Attribute>;
}

export type Attribute = string | number | boolean | readonly string[] | readonly number[];

export interface SpanContext {
  /** Makes ids: the same trajectory of the same run has the same trace id, however often it is sent. */
  readonly run: string;
  readonly experiment: string;
  readonly model: string;
  readonly clockBegan: number;
  /** With it, spans carry messages and the text of their tokens (verl: token2text), not ids alone. */
  readonly decode: ((ids: Int32Array) => string) | undefined;
}

export function trajectorySpans(scored: Scored, context: SpanContext): TraceSpan[] {
  const { trajectory } = scored;
  const traceId = hexHash(`${context.run}/${trajectory.id}`, 32);
  const at = (milliseconds: number) => context.clockBegan + milliseconds;
  const details = detailsOf(trajectory, context);
  const children = trajectory.spans.map((span, number): TraceSpan => {
    const { name, attributes, error } = details(span);
    return {
      traceId,
      spanId: hexHash(`${traceId}/${number}`, 16),
      parentId: rootId(traceId),
      name,
      start: at(span.start),
      end: at(span.end),
      error,
      attributes: { 'rollcall.turn': span.turn, ...span.attributes, ...attributes },
    };
  });
  const starts = trajectory.spans.map(({ start }) => start);
  const ends = trajectory.spans.map(({ end }) => end);
  const { end } = trajectory;
  const root: TraceSpan = {
    traceId,
    spanId: rootId(traceId),
    parentId: undefined,
    name: 'agent_loop',
    start: at(Math.min(...starts, ...(starts.length === 0 ? [0] : []))),
    end: at(Math.max(0, ...ends)),
    error: end.kind === 'failed' ? `${end.boundary}: ${end.message}` : undefined,
    attributes: rootAttributes(scored, context),
  };
  return [root, ...children];
}

const rootId = (traceId: string) => hexHash(`${traceId}/root`, 16);
const hexHash = (text: string, digits: number) =>
  createHash('sha256').update(text).digest('hex').slice(0, digits);

function rootAttributes(
  { trajectory, reward, rewards }: Scored,
  { experiment, decode }: SpanContext,
): Record<string, Attribute> {
  const { step, taskIndex, attempt, evaluation, end, messages, extra, segments } = trajectory;
  // verl's trace tags, under their names there.
  const tags = {
    step,
    sample_index: taskIndex,
    rollout_n: attempt,
    validate: evaluation !== undefined,
    experiment_name: experiment,
  };
  const agent = typeof extra['agent'] === 'string' ? extra['agent'] : 'agent';
  return {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.name': agent,
    'rollcall.trajectory': trajectory.id,
    'rollcall.step': step,
    'rollcall.sample_index': taskIndex,
    'rollcall.attempt': attempt,
    ...(evaluation === undefined ? {} : { 'rollcall.evaluation': evaluation }),
    'rollcall.end': 'why' in end ? `${end.kind}: ${end.why}` : end.kind,
    'rollcall.turns': trajectory.turns.length,
    'rollcall.tokens': segments.reduce((sum, { ids }) => sum + ids.length, 0),
    ...(reward === undefined ? {} : { 'rollcall.reward': reward }),
    ...Object.fromEntries(
      // Weave reads dots as a tree, and refuses a span in which one attribute would be another's branch.
      Object.entries(rewards).map(([name, value]) => [
        `rollcall.rewards.${name.replaceAll('.', '_')}`,
        value,
      ]),
    ),
    ...Object.fromEntries(
      Object.entries(tags).map(([key, value]) => [`mlflow.traceTag.${key}`, String(value)]),
    ),
    ...(decode ? splitMessages(messages) : {}),
  };
}

/** What was there before the first reply, and what came of it. */
function splitMessages(messages: Trajectory['messages']): Record<string, Attribute> {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  const cut = first < 0 ? messages.length : first;
  return {
    'gen_ai.input.messages': JSON.stringify(genAiMessages(messages.slice(0, cut))),
    'gen_ai.output.messages': JSON.stringify(genAiMessages(messages.slice(cut))),
  };
}

interface Details {
  readonly name: string;
  readonly attributes: Record<string, Attribute>;
  readonly error: string | undefined;
}

/** Looks up, in the trajectory's turns, what happened in a span. */
function detailsOf(trajectory: Trajectory, context: SpanContext): (span: Span) => Details {
  const taken = new Set<ToolRun>();
  const textOf = context.decode && textReader(trajectory, context.decode);
  return (span) => {
    const turn = trajectory.turns[span.turn - 1];
    if (span.kind === 'generate' && turn) return generation(trajectory, turn, context.model, textOf);
    if (span.kind === 'tool' && turn) {
      const run = nearestRun(turn, span, taken);
      if (run) {
        taken.add(run);
        return toolCall(run);
      }
    }
    const failure = span.attributes?.['error'];
    const name = span.kind === span.name || span.name === '' ? span.kind : `${span.kind} ${span.name}`;
    return { name, attributes: {}, error: failure === undefined ? undefined : String(failure) };
  };
}

function generation(
  { segments }: Trajectory,
  { segment: place, start, end, finish }: Turn,
  model: string,
  textOf: ((segment: number, from: number, to: number) => string) | undefined,
): Details {
  const ids = segments[place]?.ids ?? new Int32Array(0);
  const response = ids.subarray(start, end);
  return {
    name: 'chat',
    error: undefined,
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'rollcall',
      'gen_ai.request.model': model,
      'gen_ai.usage.input_tokens': start,
      'gen_ai.usage.output_tokens': response.length,
      'gen_ai.response.finish_reasons': [finish],
      'rollcall.response_ids': [...response],
      ...(textOf ? tokenTexts(textOf(place, 0, start), textOf(place, start, end)) : {}),
    },
  };
}

/**
 * The text of tokens between two edges of replies, put together from pieces that are each decoded once: every turn's
 * prompt begins with that of the turn before.
 */
function textReader({ segments, turns }: Trajectory, decode: (ids: Int32Array) => string) {
  const pieces = segments.map(({ ids }, place) => {
    const edges = turns.filter(({ segment }) => segment === place).flatMap(({ start, end }) => [start, end]);
    const cuts = [...new Set([0, ...edges])].sort((a, b) => a - b);
    return cuts.map((from, at) => ({ from, text: decode(ids.subarray(from, cuts[at + 1] ?? ids.length)) }));
  });
  return (place: number, start: number, end: number): string =>
    (pieces[place] ?? [])
      .filter(({ from }) => from >= start && from < end)
      .map(({ text }) => text)
      .join('');
}

/** `prompt_text` and `response_text` are verl's names; the messages are what a GenAI viewer shows. */
const tokenTexts = (prompt: string, response: string): Record<string, Attribute> => ({
  prompt_text: prompt,
  response_text: response,
  'gen_ai.input.messages': JSON.stringify([textMessage('user', prompt)]),
  'gen_ai.output.messages': JSON.stringify([textMessage('assistant', response)]),
});

const textMessage = (role: string, content: string) => ({ role, parts: [{ type: 'text', content }] });

function toolCall({ call, result, problem, reward }: ToolRun): Details {
  return {
    name: `execute_tool ${call.name}`,
    error: problem && `${problem.kind}: ${problem.message}`,
    attributes: {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': call.name,
      'gen_ai.tool.call.id': call.id,
      'gen_ai.tool.call.arguments': JSON.stringify(call.arguments),
      'gen_ai.tool.call.result': typeof result === 'string' ? result : JSON.stringify(result),
      ...(reward === undefined ? {} : { 'rollcall.reward': reward }),
    },
  };
}

/** Calls of a turn run side by side, and spans stand in the order in which they ended. */
function nearestRun(
  { toolRuns }: Turn,
  { name, start, end }: Span,
  taken: ReadonlySet<ToolRun>,
): ToolRun | undefined {
  const distance = (run: ToolRun) => Math.abs(run.milliseconds - (end - start));
  return toolRuns
    .filter((run) => run.call.name === name && !taken.has(run))
    .sort((a, b) => distance(a) - distance(b))[0];
}
