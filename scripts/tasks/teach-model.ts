import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Pace, teach } from '../../examples/quickstart/teach.ts';
import { demonstrate } from '../../examples/quickstart/teacher.ts';
import { CHAT_TEMPLATE, createTokenizerFiles, writeTokenizer } from '../../examples/quickstart/tokenizer.ts';
import type { Exercise } from '../../examples/tasks/exercise.ts';
import { createChatFormat } from '../../src/chat/chat-format.ts';
import { loadChatFormat, loadModelFiles } from '../../src/chat/model-files.ts';
import { createTokenizer } from '../../src/chat/tokenizer.ts';
import { createModel } from '../../src/engine/model/create.ts';
import type { TrainerFactory } from '../../src/training/trainer.ts';

/** About 0.16M weights with the words of a task. */
const SHAPE = { hidden: 64, layers: 3, heads: 4, kvHeads: 4, headSize: 16, intermediate: 160 };
const PACE: Pace = { batch: 16, learningRate: 4e-3, finalShare: 0.03, warmupSteps: 50 };
/** Enough demonstrations to contain every word of their task. */
const DEMONSTRATIONS_OF_WORDS = 768;

type Taught<T> = Pick<Exercise<T>, 'options' | 'demonstration' | 'demonstrations'>;

export interface TeachModelOptions<T> {
  readonly exercise: Taught<T>;
  readonly directory: string;
  readonly seed: number;
  /** Hardly anything of everything, for tests. */
  readonly tiny: boolean;
  readonly trainer: TrainerFactory;
  say(line: string): void;
}

/** A fresh model that has imitated the demonstrations of an exercise. Returns how many tokens that took. */
export async function teachModel<T>(options: TeachModelOptions<T>): Promise<number> {
  const { exercise, directory, tiny, seed, say } = options;
  const fresh = `${directory}-fresh`;
  await rm(fresh, { recursive: true, force: true });
  await writeTokenizer(
    join(fresh, 'tokenizer'),
    await textsOf(exercise, tiny ? 32 : DEMONSTRATIONS_OF_WORDS),
  );
  createModel({
    directory: fresh,
    size: 'tiny',
    tokenizer: join(fresh, 'tokenizer'),
    seed,
    overrides: tiny ? {} : SHAPE,
  });
  const { tokenizer } = await loadModelFiles(fresh);
  const format = await loadChatFormat(fresh);
  const { agent, limits = {} } = exercise.options;
  const trainer = await options.trainer.open('policy', fresh);
  try {
    const lesson = {
      create: exercise.demonstration,
      first: 0,
      count: tiny ? 32 : exercise.demonstrations,
      pace: PACE,
    };
    const tokens = await teach(lesson, {
      trainer,
      agent,
      limits: limits as object,
      tokenizer,
      format,
      onProgress: ({ done, total, loss }) => {
        if (done % 1024 < PACE.batch) say(`  ${done} of ${total} demonstrations, loss ${loss.toFixed(3)}`);
      },
    });
    await trainer.save(directory);
    return tokens;
  } finally {
    await trainer.close();
    if (existsSync(directory)) await rm(fresh, { recursive: true });
  }
}

/** What is said in the last demonstrations, by all sides: written down with a tokenizer of single bytes. */
async function textsOf<T>(
  { demonstration, demonstrations, options: { agent } }: Taught<T>,
  count: number,
): Promise<string[]> {
  const files = createTokenizerFiles([]);
  const tokenizer = createTokenizer(files['tokenizer.json'], files['tokenizer_config.json']);
  const format = createChatFormat({ tokenizer, template: CHAT_TEMPLATE });
  const texts: string[] = [];
  for (let index = 0; index < count; index++) {
    const chosen = demonstration(demonstrations - 1 - index); // drills come first and say little
    const { ids } = await demonstrate(chosen, { agent, limits: {}, tokenizer, format });
    texts.push(...tokenizer.decode(ids).split(/<\|\w+\|>|<\/?tool_call>/));
  }
  return [...new Set(texts)];
}
