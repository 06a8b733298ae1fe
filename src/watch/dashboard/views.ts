/** One step of a run, as the page shows it. */
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { messageOf } from '../../lib/error-message.ts';
import type { Content, End, Message } from '../../types.ts';
import { adviceFor } from '../failure-advice.ts';
import { problemsOf } from '../problems.ts';
import { endName } from '../rollout-metrics.ts';
import { runPaths } from '../run-directory.ts';
import { readServerSamples } from '../server-samples.ts';
import {
  type IndexEntry,
  readTrajectory,
  type StepIndex,
  type StoredTokens,
  type StoredTrajectory,
} from '../trajectory-store.ts';
import type {
  AttemptRow,
  FailureRow,
  SearchView,
  StepFailures,
  StepView,
  TimelineView,
  TokenColumns,
  TrajectoryView,
} from './api.ts';
import { tokenDifferences } from './retokenised.ts';

/** What the page needs of a run's tokenizer. */
export interface TokenTexts {
  texts(ids: Int32Array): string[];
  /** The ids that encoding the text of these ids again would give. */
  encodedAgain(ids: Int32Array): Int32Array;
}

const TITLE_LENGTH = 160;
const READ_WHOLE_BYTES = 16_000_000;
const SNIPPET_LENGTH = 90;
const MOST_HITS = 500;

export async function stepView(directory: string, index: StepIndex): Promise<StepView> {
  const entries = index.trajectories;
  const bytes = entries.reduce((sum, { line }) => sum + line[1], 0);
  const firsts = new Map<number, IndexEntry>();
  for (const entry of entries) if (!firsts.has(entry.taskIndex)) firsts.set(entry.taskIndex, entry);
  const titles: Record<number, string> = {};
  const replies: string[] = [];
  if (bytes <= READ_WHOLE_BYTES) {
    for await (const [, trajectory] of trajectoriesOf(directory, index)) {
      titles[trajectory.taskIndex] ??= titleOf(trajectory);
      replies.push(oneLine(trajectory.text));
    }
  } else {
    const file = await open(linesFile(directory, index.step), 'r');
    try {
      for (const [task, { line }] of firsts) {
        const slice = Buffer.alloc(line[1]);
        await file.read(slice, 0, slice.length, line[0]);
        titles[task] = titleOf(JSON.parse(slice.toString('utf8')) as StoredTrajectory);
      }
    } finally {
      await file.close();
    }
  }
  return { step: index.step, attempts: entries.map(rowOf), titles, replies };
}

export async function trajectoryView(
  directory: string,
  index: StepIndex,
  position: number,
  tokenizer: () => Promise<TokenTexts>,
): Promise<TrajectoryView> {
  const entry = index.trajectories[position]!;
  const { trajectory, segments } = await readTrajectory(directory, index.step, entry);
  let texts: TokenTexts | undefined;
  let withoutTexts: string | null = null;
  try {
    texts = await tokenizer();
  } catch (error) {
    withoutTexts = messageOf(error);
  }
  return {
    row: rowOf(entry, position),
    count: index.trajectories.length,
    trajectory,
    segments: segments.map((segment) => columns(segment, texts)),
    withoutTexts,
  };
}

export async function searchStep(directory: string, index: StepIndex, words: string): Promise<SearchView> {
  const wanted = words.toLowerCase();
  const hits: { position: number; snippet: string }[] = [];
  for await (const [position, trajectory] of trajectoriesOf(directory, index)) {
    const text = trajectory.messages.map(saidIn).join('\n');
    const at = text.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const from = Math.max(0, at - 30);
    hits.push({ position, snippet: text.slice(from, from + SNIPPET_LENGTH) });
    if (hits.length === MOST_HITS) break;
  }
  return { hits };
}

export async function timelineView(directory: string, index: StepIndex): Promise<TimelineView> {
  const lanes: TimelineView['lanes'][number][] = [];
  for await (const [position, { taskIndex, attempt, spans }] of trajectoriesOf(directory, index)) {
    lanes.push({
      position,
      taskIndex,
      attempt,
      spans: spans.map(({ kind, name, turn, start, end, attributes }) => ({
        kind,
        name,
        turn,
        start: Math.round(start * 100) / 100,
        end: Math.round(end * 100) / 100,
        ...(typeof attributes?.problem === 'string' && { problem: attributes.problem }),
        ...(typeof attributes?.server === 'string' && { server: attributes.server }),
        ...(typeof attributes?.promptTokens === 'number' && { promptTokens: attributes.promptTokens }),
        ...(typeof attributes?.cachedTokens === 'number' && { cachedTokens: attributes.cachedTokens }),
      })),
    });
  }
  return { step: index.step, lanes, servers: (await readServerSamples(directory, index.step)) ?? null };
}

/** Every end but `completed`, and every mistake of the model, under the name of its metric. */
export async function stepFailures(directory: string, index: StepIndex): Promise<StepFailures> {
  const failures: FailureRow[] = [];
  for await (const [position, { taskIndex, attempt, end, turns }] of trajectoriesOf(directory, index)) {
    const place = { position, taskIndex, attempt };
    if (end.kind !== 'completed') {
      const advice = end.kind === 'failed' ? adviceFor(end) : { cause: null, suggestion: null };
      const kind = `ends/${endName(end)}`;
      failures.push({ ...place, kind, turn: null, message: endInWords(end), source: '', ...advice });
    }
    turns.forEach((turn, at) => {
      for (const problem of problemsOf(turn)) {
        const { kind, message } = problem;
        const run = turn.toolRuns.find((one) => one.problem === problem);
        const source = run ? `${run.call.name}(${JSON.stringify(run.call.arguments)})` : problem.source;
        const mistake = { kind: `tools/problems/${kind}`, turn: at + 1, message, source };
        failures.push({ ...place, ...mistake, cause: null, suggestion: null });
      }
    });
  }
  return { step: index.step, failures };
}

async function* trajectoriesOf(
  directory: string,
  { step, trajectories }: StepIndex,
): AsyncGenerator<[number, StoredTrajectory]> {
  const lines = createInterface({ input: createReadStream(linesFile(directory, step)), crlfDelay: Infinity });
  let position = 0;
  for await (const line of lines) {
    if (position < trajectories.length) yield [position++, JSON.parse(line) as StoredTrajectory];
  }
}

const linesFile = (directory: string, step: number) =>
  join(runPaths(directory).trajectories, `step_${step}.jsonl`);

function rowOf(entry: IndexEntry, position: number): AttemptRow {
  const { taskIndex, attempt, reward, advantage, end, turns, problems, tokens, sampledTokens } = entry;
  return {
    position,
    taskIndex,
    attempt,
    reward,
    advantage,
    end: endName(end),
    message: failureOf(end),
    turns,
    problems,
    tokens,
    sampledTokens,
  };
}

function failureOf(end: End): string | null {
  return end.kind === 'failed' ? end.message : end.kind === 'cancelled' ? end.why : null;
}

function endInWords(end: End): string {
  return end.kind === 'truncated' ? `the limit on ${end.why} was reached` : (failureOf(end) ?? '');
}

function titleOf({ messages }: StoredTrajectory): string {
  const first = messages.find(({ role }) => role === 'user') ?? messages[0];
  return first ? oneLine(textOf(first.content)) : '';
}

const oneLine = (text: string) => text.replaceAll(/\s+/g, ' ').slice(0, TITLE_LENGTH);

function saidIn(message: Message): string {
  const text = textOf(message.content);
  if (message.role !== 'assistant') return text;
  const calls = (message.toolCalls ?? []).map((call) => `${call.name} ${JSON.stringify(call.arguments)}`);
  return [message.reasoning ?? '', text, ...calls].filter((part) => part !== '').join('\n');
}

function textOf(content: Content): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join(' ');
}

function columns(tokens: StoredTokens, tokenizer: TokenTexts | undefined): TokenColumns {
  const texts = tokenizer?.texts(tokens.ids) ?? [];
  return {
    ids: [...tokens.ids],
    texts,
    sampled: [...tokens.sampled],
    trained: [...tokens.trained],
    rolloutLogprobs: numbers(tokens.rolloutLogprobs),
    trainerLogprobs: numbers(tokens.trainerLogprobs),
    entropies: numbers(tokens.entropies),
    advantages: numbers(tokens.advantages),
    versions: [...tokens.versions],
    turns: [...tokens.turns],
    retokenised: tokenizer ? differences(tokens.ids, texts, tokenizer) : [],
  };
}

function differences(ids: Int32Array, texts: readonly string[], tokenizer: TokenTexts) {
  const again = tokenizer.encodedAgain(ids);
  return tokenDifferences({ ids, texts }, { ids: again, texts: tokenizer.texts(again) });
}

const numbers = (column: Float32Array) =>
  Array.from(column, (value) => (Number.isFinite(value) ? Number(value.toPrecision(6)) : null));
