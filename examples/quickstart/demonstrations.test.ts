import { Tokenizer as Library } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { selfTest } from 'rollcall/chat';
import { expect, test } from 'vitest';
import { createChatFormat } from '../../src/chat/chat-format.ts';
import { createTokenizer } from '../../src/chat/tokenizer.ts';
import { calculate } from './calculate.ts';
import { createDemonstration, demonstrationProblem, HABITS } from './demonstrations.ts';
import { createDrill, createHardDrill } from './drills.ts';
import { createProblems } from './problems.ts';
import { createSolver, LIMITS } from './solver.ts';
import { demonstrate } from './teacher.ts';
import { TEXTS } from './texts.ts';
import { CHAT_TEMPLATE, createTokenizerFiles } from './tokenizer.ts';

const files = createTokenizerFiles(TEXTS);
const tokenizer = createTokenizer(files['tokenizer.json'], files['tokenizer_config.json']);
const format = createChatFormat({ tokenizer, template: CHAT_TEMPLATE });
const stage = { agent: createSolver(), limits: LIMITS, tokenizer, format };
/** Single bytes lie after the special tokens; of these only digits, punctuation and white space may occur. */
const isStrayByte = (id: number) => /^[A-Za-z]$/.test(tokenizer.decode(Int32Array.of(id)));

test('every problem encodes without unknown tokens, one token a digit, and decodes to itself', () => {
  const library = new Library(files['tokenizer.json']!, files['tokenizer_config.json']!);
  for (const split of ['train', 'validation', 'test', 'unseen'] as const) {
    for (const { question } of createProblems(split, 1, 450)) {
      const { ids, tokens } = library.encode(question, { add_special_tokens: false }) as {
        ids: number[];
        tokens: string[];
      };
      expect(ids.filter(isStrayByte)).toEqual([]);
      expect(library.decode(ids)).toBe(question);
      expect(Array.from(tokenizer.encode(question))).toEqual(ids);
      expect(tokens.filter((token) => /\d/.test(token)).every((token) => token.length === 1)).toBe(true);
      // No word of a problem falls apart into characters.
      expect(tokens.filter((token) => /^ ?[A-Za-z]$/.test(token)).every((token) => token === ' a')).toBe(
        true,
      );
    }
  }
});

test('any text encodes and decodes exactly', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      expect(tokenizer.decode(tokenizer.encodeText(text))).toBe(text);
    }),
  );
});

test('the chat template passes the self-test', () => {
  const { passed, checks } = selfTest(format, { tools: true });
  expect(checks.filter(({ outcome }) => outcome !== 'passed')).toEqual([]);
  expect(passed).toBe(true);
});

test('a demonstration is the dialogue that the template writes, trained on the replies alone', async () => {
  for (let index = 0; index < 90; index++) {
    const create = [createDrill, createHardDrill, createDemonstration][index % 3]!;
    const demonstration = create(1, index);
    const { ids, trained } = await demonstrate(demonstration, stage);
    const text = tokenizer.decode(ids);
    expect(Array.from(ids).filter(isStrayByte)).toEqual([]);
    expect(ids.length).toBeLessThanOrEqual(256);
    const turns = [...text.matchAll(/<\|im_start\|>(\w+)\n([\s\S]*?)<\|im_end\|>/g)].map(
      ([, role, said]) => ({
        role,
        said: said!,
      }),
    );
    expect(turns[0]).toEqual({ role: 'system', said: 'Tools:\ncalculator: One operation on two numbers.' });
    expect(turns[1]).toEqual({ role: 'user', said: demonstration.task.question });
    const replies = turns.filter(({ role }) => role === 'assistant').map(({ said }) => said);
    expect(replies).toEqual(demonstration.replies);
    const learned = tokenizer.decode(ids.filter((_, at) => trained[at] === 1));
    expect(learned).toBe(replies.map((reply) => `${reply}<|im_end|>`).join(''));
    // Each readable call is answered by what the calculator says.
    turns.forEach(({ role, said }, at) => {
      const expression = role === 'assistant' ? /"expression":"([^"]*)"\}\}/.exec(said)?.[1] : undefined;
      if (expression !== undefined) {
        expect(turns[at + 1]).toEqual({ role: 'tool', said: calculate(expression) });
      }
    });
  }
});

test('demonstrations are right in about 65 % of the problems without a habit, and as often as a habit allows', () => {
  const tallies = new Map<string, { right: number; all: number }>();
  for (let index = 0; index < 9_000; index++) {
    const { task, replies } = createDemonstration(5, index);
    const problem = demonstrationProblem(5, index);
    expect(problem.question).toBe(task.question);
    const tally = tallies.get(problem.family) ?? { right: 0, all: 0 };
    tallies.set(problem.family, tally);
    tally.all++;
    if (replies.at(-1) === `The answer is ${problem.answer}.`) tally.right++;
  }
  const shares = { shared: 0.2, kinds: 0.15, more: 0.12, change: 0.08, saved: 0.05 };
  expect(Object.keys(HABITS)).toEqual(Object.keys(shares));
  for (const [family, { right, all }] of tallies) {
    const habit = shares[family as keyof typeof shares] as number | undefined;
    // A broken call that is made good ends right too: a quarter of the clumsy ones.
    const expected = habit === undefined ? 0.65 + 0.35 / 4 : habit + 0.15 / 4;
    expect(Math.abs(right / all - expected), family).toBeLessThan(0.05);
  }
});

test('hard drills say what they compute, from left to right but for parentheses, and answers have two to five digits', () => {
  const drills = Array.from({ length: 600 }, (_, index) => createHardDrill(3, index));
  const share = (of: (drill: (typeof drills)[number]) => boolean) => drills.filter(of).length / drills.length;
  for (const digits of [2, 3, 4, 5]) {
    expect(share(({ task }) => String(task.answer).length === digits)).toBeGreaterThan(0.12);
  }
  expect(share(({ replies }) => replies.length === 2)).toBeCloseTo(1 / 6, 1);
  expect(share(({ replies }) => replies.length === 3)).toBeCloseTo(1 / 2, 1);
  for (const { task } of drills) {
    let sum = /What is ([^?]*)\?/.exec(task.question)![1]!;
    const [operation, brackets] = [/\d+ . \d+/, /\((\d+)\)/];
    while (operation.test(sum) || brackets.test(sum)) {
      const inner = /\((\d+ . \d+)\)/.exec(sum)?.[1] ?? operation.exec(sum)?.[0] ?? '';
      sum = inner ? sum.replace(inner, calculate(inner)!) : sum;
      sum = sum.replace(brackets, '$1');
    }
    expect(Number(sum), task.question).toBe(task.answer);
  }
});

test('the calculator takes one operation on two numbers and nothing else', () => {
  expect(['12*7', ' 348 + 91 ', '7/2', '10/3', '5-9', '-5+3', '1.5*2'].map(calculate)).toEqual([
    '84',
    '439',
    '3.5',
    '3.33',
    '-4',
    '-2',
    '3',
  ]);
  for (const wrong of ['1+2+3', '12', '4*', '', '(1+2)', 'a+b', '5/0', '2**3']) {
    expect(calculate(wrong)).toBeUndefined();
  }
});
