import { Tokenizer as Library } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { selfTest } from 'rollcall/chat';
import { expect, test } from 'vitest';
import { createChatFormat } from '../../src/chat/chat-format.ts';
import { createTokenizer } from '../../src/chat/tokenizer.ts';
import { calculate } from './calculate.ts';
import { createDemonstration, createDrill, demonstrationProblem, HABITS } from './demonstrations.ts';
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
    const demonstration = index % 3 === 0 ? createDrill(1, index) : createDemonstration(1, index);
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

test('demonstrations are right in about 65 % of the problems without a habit and 20 % of those with one', () => {
  const right = { habit: [0, 0], plain: [0, 0] };
  for (let index = 0; index < 6_000; index++) {
    const { task, replies } = createDemonstration(5, index);
    const problem = demonstrationProblem(5, index);
    expect(problem.question).toBe(task.question);
    const tally = right[problem.family in HABITS ? 'habit' : 'plain'];
    tally[1]!++;
    if (replies.at(-1) === `The answer is ${problem.answer}.`) tally[0]!++;
  }
  // A broken call that is made good ends right too: a quarter of the clumsy ones.
  expect(right.plain[0]! / right.plain[1]!).toBeCloseTo(0.65 + 0.35 / 4, 1);
  expect(right.habit[0]! / right.habit[1]!).toBeCloseTo(0.2 + 0.15 / 4, 1);
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
