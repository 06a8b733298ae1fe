import { availableParallelism } from 'node:os';
import { ConfigError, DatasetError } from '../errors.ts';
import { startWorker } from '../lib/worker.ts';
import type { ToolSchema } from '../types.ts';
import type { Dataset } from './dataset.ts';
import type { TaskMessage, TaskPart, TaskRow } from './task-row.ts';
import type { CounterModule, CountTokens, Prompt } from './token-counter.ts';

/** How long a prompt may be, and what happens to longer ones. */
export interface PromptLengthOptions {
  readonly maxTokens: number;
  /**
   * A longer prompt is left out (`filter`), stops the run (`error`), or is cut. Cutting takes characters from the
   * last user message, never from the template: its start (`left`), its end (`right`) or its middle.
   */
  readonly tooLong: 'filter' | 'error' | 'left' | 'right' | 'middle';
  readonly count: CountTokens | CounterModule;
  /** Schemas a task is offered; counted with its prompt. */
  toolsOf?(task: TaskRow): readonly ToolSchema[];
  readonly workers?: number;
  readonly signal?: AbortSignal;
  onProgress?(done: number, total: number): void;
}

const CHUNK_ROWS = 64;

/** The dataset whose every prompt has at most `maxTokens`. Counts every row once, in workers where it can. */
export async function limitPrompts<T extends TaskRow>(
  dataset: Dataset<T>,
  options: PromptLengthOptions,
): Promise<Dataset<T>> {
  const { maxTokens, tooLong } = options;
  const counter = openCounter(options);
  try {
    const lengths = await countAll(dataset, options, counter.count);
    const over = lengths.findIndex((tokens) => tokens > maxTokens);
    if (over < 0) return dataset;
    if (tooLong === 'error') {
      throw new DatasetError(
        `${dataset.name}, row ${dataset.indexAt(over)}: the prompt has ${lengths[over]} tokens, the limit is ${maxTokens}; filter or truncate over-long prompts, or raise the limit`,
      );
    }
    if (tooLong === 'filter') {
      return dataset.select(Int32Array.from(lengths.keys()).filter((place) => lengths[place]! <= maxTokens));
    }
    const cut = new Map<number, readonly TaskMessage[]>();
    for (const [place, tokens] of lengths.entries()) {
      if (tokens <= maxTokens) continue;
      const index = dataset.indexAt(place);
      cut.set(
        index,
        await shortenPrompt(
          await dataset.at(place),
          `${dataset.name}, row ${index}`,
          tooLong,
          options,
          counter.count,
        ),
      );
    }
    return dataset.map((task, index) => {
      const prompt = cut.get(index);
      return prompt ? { ...task, prompt } : task;
    });
  } finally {
    await counter.close();
  }
}

type CountMany = (prompts: readonly Prompt[]) => Promise<readonly number[]>;

async function countAll<T extends TaskRow>(
  dataset: Dataset<T>,
  { toolsOf, onProgress, signal, workers = availableParallelism() }: PromptLengthOptions,
  count: CountMany,
): Promise<number[]> {
  const lengths = new Array<number>(dataset.length).fill(0);
  let done = 0;
  let chunk: { place: number; prompt: Prompt }[] = [];
  const running = new Set<Promise<void>>();
  const send = async () => {
    const sent = chunk;
    chunk = [];
    while (running.size >= workers * 2) await Promise.race(running);
    const task = count(sent.map(({ prompt }) => prompt)).then((tokens) => {
      tokens.forEach((number, at) => {
        lengths[sent[at]!.place] = number;
      });
      done += sent.length;
      onProgress?.(done, dataset.length);
      running.delete(task);
    });
    task.catch(() => {}); // seen by the race or the final wait
    running.add(task);
  };
  for await (const { row, next } of dataset.rows()) {
    signal?.throwIfAborted();
    chunk.push({ place: next - 1, prompt: { messages: row.prompt, tools: toolsOf?.(row) ?? [] } });
    if (chunk.length === CHUNK_ROWS) await send();
  }
  if (chunk.length > 0) await send();
  await Promise.all(running);
  return lengths;
}

function openCounter({ count, workers = availableParallelism() }: PromptLengthOptions): {
  readonly count: CountMany;
  close(): Promise<void>;
} {
  if (typeof count === 'function') {
    return {
      count: (prompts) => Promise.all(prompts.map(({ messages, tools }) => count(messages, tools))),
      close: async () => {},
    };
  }
  const pool = Array.from({ length: workers }, () =>
    startWorker('./prompt-length-worker', import.meta.url, { workerData: count }),
  );
  const waiting = new Map<number, { resolve(tokens: number[]): void; reject(error: Error): void }>();
  let next = 0;
  for (const worker of pool) {
    worker.on('message', ({ id, tokens, error }: { id: number; tokens?: number[]; error?: string }) => {
      const caller = waiting.get(id);
      waiting.delete(id);
      if (tokens) caller?.resolve(tokens);
      else
        caller?.reject(
          new ConfigError(`counting tokens with ${count.module}#${count.name} failed: ${error}`),
        );
    });
    worker.on('error', (error) => {
      for (const caller of waiting.values()) caller.reject(error);
      waiting.clear();
    });
  }
  return {
    count: (prompts) =>
      new Promise((resolve, reject) => {
        const id = next++;
        waiting.set(id, { resolve, reject });
        pool[id % pool.length]!.postMessage({ id, prompts });
      }),
    close: async () => {
      await Promise.all(pool.map((worker) => worker.terminate()));
    },
  };
}

/** Binary search for the most characters that fit; counting decides, so no rule about tokens is assumed. */
async function shortenPrompt(
  task: TaskRow,
  where: string,
  side: 'left' | 'right' | 'middle',
  { maxTokens, toolsOf }: PromptLengthOptions,
  count: CountMany,
): Promise<readonly TaskMessage[]> {
  const at = task.prompt.findLastIndex((message) => message.role === 'user');
  const message = task.prompt[at];
  if (message?.role !== 'user') throw new DatasetError(`${where}: has no user message to shorten`);
  const characters = [...textOf(message.content)];
  const tools = toolsOf?.(task) ?? [];
  const withText = (kept: number): TaskMessage[] =>
    task.prompt.with(at, {
      role: 'user',
      content: replaceText(message.content, keepCharacters(characters, kept, side)),
    });
  const fits = async (kept: number) => (await count([{ messages: withText(kept), tools }]))[0]! <= maxTokens;
  if (!(await fits(0))) {
    throw new DatasetError(
      `${where}: the prompt is over ${maxTokens} tokens even without the text of its last user message; raise the limit or shorten the system message and tool schemas`,
    );
  }
  let low = 0;
  let high = characters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (await fits(middle)) low = middle;
    else high = middle - 1;
  }
  return withText(low);
}

function keepCharacters(
  characters: readonly string[],
  kept: number,
  side: 'left' | 'right' | 'middle',
): string {
  if (side === 'left') return characters.slice(characters.length - kept).join('');
  if (side === 'right') return characters.slice(0, kept).join('');
  const head = Math.ceil(kept / 2);
  return [...characters.slice(0, head), ...characters.slice(characters.length - (kept - head))].join('');
}

const textOf = (content: string | readonly TaskPart[]): string =>
  typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '')).join('');

/** Images stay where they are; the shortened text takes the place of the last text part. */
function replaceText(content: string | readonly TaskPart[], text: string): string | TaskPart[] {
  if (typeof content === 'string') return text;
  const last = content.findLastIndex((part) => part.type === 'text');
  const kept: TaskPart[] = [];
  content.forEach((part, at) => {
    if (at === last) kept.push({ type: 'text', text });
    else if (part.type === 'image') kept.push(part);
  });
  return kept;
}
