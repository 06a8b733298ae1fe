/**
 * A person in the loop. A question is a file, and so is its answer: both outlive the process. The name of a question is
 * a hash of the trajectory and its dialogue; a run that is resumed samples the same dialogue from the same seeds, finds
 * its question again, and the answer if it has been given meanwhile.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { ConfigError, ToolError } from '../../errors.ts';
import { sleep } from '../../lib/clock.ts';
import { writeFileAtomically } from '../../lib/files.ts';
import type { Message } from '../../types.ts';
import { type Interaction, type InteractionKwargs, interaction } from './interaction.ts';

/** What a person answered. */
export interface HumanAnswer {
  readonly text: string;
  /** The dialogue is over. */
  readonly done: boolean;
  /** Step reward of the reply, if the person rates it. */
  readonly rating?: number;
}

/** A question that waits for a person. */
export interface HumanQuestion {
  readonly key: string;
  readonly trajectory: string;
  readonly interaction: string;
  readonly messages: readonly Message[];
  readonly askedAt: string;
}

/** Where the questions for a person are kept, and how often answers are looked for. */
export interface HumanOptions {
  readonly name?: string;
  /** Folder of the questions and answers. */
  readonly directory: string;
  readonly pollMs?: number;
}

/** Waits as long as the trajectory may: set `limits.secondsPerTrajectory` to a person's patience. */
export function humanInteraction({ name = 'human', directory, pollMs = 500 }: HumanOptions): Interaction {
  return interaction({
    name,
    timeoutMs: Number.POSITIVE_INFINITY,
    respond: async (messages, { id, clock, signal }) => {
      const key = createHash('sha256')
        .update(JSON.stringify([id, messages]))
        .digest('hex')
        .slice(0, 16);
      await mkdir(directory, { recursive: true });
      if (!existsSync(questionPath(directory, key))) {
        const question: HumanQuestion = {
          key,
          trajectory: id,
          interaction: name,
          messages,
          askedAt: new Date().toISOString(),
        };
        await writeFileAtomically(questionPath(directory, key), `${JSON.stringify(question, null, 2)}\n`);
      }
      for (;;) {
        const answer = await readAnswer(directory, key);
        if (answer) {
          const { text, done, rating } = answer;
          return { text, done, ...(rating !== undefined && { score: rating }) };
        }
        await sleep(clock, pollMs, signal);
      }
    },
  });
}

export function humanInteractionOf(config: InteractionKwargs, name: string, from: string): Interaction {
  const { directory, poll_ms: pollMs } = config;
  if (typeof directory !== 'string') {
    throw new ConfigError(
      `the user '${name}' is a person and needs config.directory, where questions are kept`,
    );
  }
  return humanInteraction({
    name,
    directory: resolve(from, directory),
    ...(pollMs !== undefined && { pollMs: Number(pollMs) }),
  });
}

const questionPath = (directory: string, key: string) => join(directory, `${key}.question.json`);
const answerPath = (directory: string, key: string) => join(directory, `${key}.answer.json`);

const answerSchema = z.object({
  text: z.string(),
  done: z.boolean().default(false),
  rating: z.number().optional(),
});

/** A person may write the file by hand: until it is complete it does not count; an answer of another shape is an error. */
async function readAnswer(directory: string, key: string): Promise<HumanAnswer | undefined> {
  const path = answerPath(directory, key);
  if (!existsSync(path)) return undefined;
  let content: unknown;
  try {
    content = JSON.parse(await readFile(path, 'utf8'));
  } catch {
    return undefined;
  }
  const read = answerSchema.safeParse(content);
  if (!read.success) {
    throw new ToolError(`${path} is not an answer: ${z.prettifyError(read.error).replace(/\s+/g, ' ')}`);
  }
  const { text, done, rating } = read.data;
  return { text, done, ...(rating !== undefined && { rating }) };
}

/** Questions without an answer, the oldest first. */
export async function openQuestions(directory: string): Promise<HumanQuestion[]> {
  const files = existsSync(directory) ? await readdir(directory) : [];
  const open = files.flatMap((file) => {
    const key = /^([0-9a-f]{16})\.question\.json$/.exec(file)?.[1];
    return key !== undefined && !files.includes(`${key}.answer.json`) ? [key] : [];
  });
  const questions = await Promise.all(
    open.map(
      async (key): Promise<HumanQuestion> => JSON.parse(await readFile(questionPath(directory, key), 'utf8')),
    ),
  );
  return questions.sort((a, b) => (a.askedAt < b.askedAt ? -1 : 1));
}

/** Writes the answer to a question that waits for one. */
export async function answerQuestion(directory: string, key: string, answer: HumanAnswer): Promise<void> {
  if (!/^[0-9a-f]{16}$/.test(key) || !existsSync(questionPath(directory, key))) {
    throw new ConfigError(`there is no question ${key} in ${directory}`);
  }
  if (existsSync(answerPath(directory, key))) throw new ConfigError(`question ${key} has been answered`);
  if (answer.rating !== undefined && !Number.isFinite(answer.rating)) {
    throw new ConfigError(`a rating is a finite number; it is ${answer.rating}`);
  }
  await writeFileAtomically(answerPath(directory, key), `${JSON.stringify(answer, null, 2)}\n`);
}
