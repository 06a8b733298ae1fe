import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import { serve } from '@hono/node-server';
import type { Command } from 'commander';
import { Hono } from 'hono';
import { z } from 'zod';
import { answerQuestion, type HumanQuestion, openQuestions } from '../agent/interactions/human.ts';
import { ConfigError } from '../errors.ts';
import { realClock } from '../lib/clock.ts';
import { guardRequests, keyFor } from '../lib/http-guard.ts';
import { serverKeyOption } from './api-key.ts';
import { port } from './number.ts';

interface QuestionsFlags {
  readonly list?: boolean;
  readonly http?: number;
  readonly apiKey?: string;
}

export function registerQuestions(program: Command): void {
  program
    .command('questions')
    .description('the questions that trajectories ask a person: answer them here, or over HTTP')
    .argument('<directory>', 'where they are kept: config.directory of a HumanInteraction')
    .option('--list', 'only print them, as JSON lines')
    .option('--http <port>', 'serve them on 127.0.0.1; 0 takes a free port', port)
    .addOption(serverKeyOption())
    .action(async (directory: string, { list, http, apiKey }: QuestionsFlags) => {
      if (list) for (const question of await openQuestions(directory)) console.log(JSON.stringify(question));
      else if (http !== undefined) await serveQuestions(directory, http, apiKey);
      else await answerInTerminal(directory);
    });
}

async function answerInTerminal(directory: string): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const lines = terminal[Symbol.asyncIterator]();
  /** Undefined when the input has ended. */
  const ask = async (prompt: string): Promise<string | undefined> => {
    terminal.setPrompt(prompt);
    terminal.prompt();
    const { done, value } = await lines.next();
    return done ? undefined : value;
  };
  try {
    const questions = await openQuestions(directory);
    if (questions.length === 0) console.log(`no open questions in ${directory}`);
    for (const question of questions) {
      console.log(`\n${question.trajectory}\n${dialogue(question)}`);
      const text = await ask('your answer (empty: the dialogue is over): ');
      const rating = text === undefined ? undefined : await ask('rating of the reply (empty: none): ');
      if (text === undefined || rating === undefined) return;
      await answerQuestion(directory, question.key, {
        text,
        done: text.trim() === '',
        ...(rating.trim() !== '' && { rating: Number(rating) }),
      });
    }
  } finally {
    terminal.close();
  }
}

function dialogue({ messages }: HumanQuestion): string {
  return messages
    .map(({ role, content }) => `${role}: ${typeof content === 'string' ? content : JSON.stringify(content)}`)
    .join('\n');
}

const answerSchema = z.strictObject({
  text: z.string().max(100_000),
  done: z.boolean().default(false),
  rating: z.number().optional(),
});

/** `GET /questions` and `POST /questions/KEY`, for who has the token. */
export function questionsApp(directory: string, token: string): Hono {
  const app = new Hono();
  app.use(guardRequests({ key: token, clock: realClock(), bodyBytes: 1_000_000, requestsPerMinute: 1_200 }));
  app.get('/questions', async (context) => context.json(await openQuestions(directory)));
  app.post('/questions/:key', async (context) => {
    const answer = answerSchema.safeParse(await context.req.json().catch(() => undefined));
    if (!answer.success) return context.json({ error: z.prettifyError(answer.error) }, 400);
    const { text, done, rating } = answer.data;
    try {
      await answerQuestion(directory, context.req.param('key'), {
        text,
        done,
        ...(rating !== undefined && { rating }),
      });
    } catch (error) {
      if (error instanceof ConfigError) return context.json({ error: error.message }, 409);
      throw error;
    }
    return context.json({ answered: true });
  });
  return app;
}

async function serveQuestions(directory: string, port: number, apiKey?: string): Promise<void> {
  const token = keyFor('127.0.0.1', apiKey) ?? randomBytes(16).toString('hex');
  const server = serve(
    { fetch: questionsApp(directory, token).fetch, hostname: '127.0.0.1', port },
    (address) =>
      console.log(`questions at http://127.0.0.1:${address.port}/questions, Authorization: Bearer ${token}`),
  );
  await new Promise<void>((stop) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop());
  });
  server.close();
}
