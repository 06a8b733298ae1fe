/** Tools that come with Rollcall and need no service: local search and the code interpreter. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { reward, rollout, type Tool, toolLoop } from 'rollcall';
import { codeReward } from 'rollcall/rewards';
import { openSandbox } from 'rollcall/services';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { toolsFromConfig } from 'rollcall/tools';
import { describe, expect, onTestFinished, test } from 'vitest';
import { hasComputeEngine } from './needs.ts';

const { tokenizer, format } = byteModel();

async function callOnce(tools: readonly Tool[], name: string, given: object) {
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: toolLoop({ prompt: 'go', tools }),
    server: scriptedEngine({
      tokenizer,
      reply: ({ turn }) =>
        turn === 0 ? `<tool_call>${JSON.stringify({ name, arguments: given })}</tool_call>` : 'done',
    }),
    format,
    rewards: [reward('one', () => 1)],
    seed: 1,
  });
  return group!.attempts[0]!.trajectory.turns[0]!.toolRuns[0]!;
}

describe('search over documents on this machine', () => {
  async function corpus(lines: readonly object[]) {
    const file = join(await mkdtemp(join(tmpdir(), 'rollcall-corpus-')), 'corpus.jsonl');
    await writeFile(file, lines.map((line) => JSON.stringify(line)).join('\n'));
    return file;
  }
  const open = async (config: object) =>
    (
      await toolsFromConfig([{ class_name: 'verl.tools.search_tool.SearchTool', config }], {
        directory: '.',
        source: 'here',
      })
    ).tools;

  test('the passage that has the words comes first, in the form of Search-R1', async () => {
    const documents = await corpus([
      { id: '0', contents: 'Paris\nParis is the capital of France.' },
      { id: '1', title: 'Rome', text: 'Rome is the capital of Italy.' },
      ...Array.from({ length: 200 }, (_, index) => ({
        id: `f${index}`,
        contents: `Filler ${index}\nNothing of note about place ${index}.`,
      })),
    ]);
    const tools = await open({ documents, topk: 1 });
    const { result, metrics } = await callOnce(tools, 'search', {
      query_list: ['capital of Italy', 'capital of France'],
    });
    expect(JSON.parse(String(result)).result).toBe(
      'Doc 1 (Title: Rome)\nRome is the capital of Italy.\n---\nDoc 1 (Title: Paris)\nParis is the capital of France.',
    );
    expect(metrics).toMatchObject({ query_count: 2, total_results: 2 });
    expect(JSON.parse(String((await callOnce(tools, 'search', { query_list: ['zzz'] })).result)).result).toBe(
      'No search results found.',
    );
    expect((await callOnce(tools, 'search', { query_list: [] })).problem).toMatchObject({
      kind: 'tool-threw',
    });
  });

  test('documents that cannot be read are an error before the start, by line', async () => {
    await expect(open({ documents: 'nowhere.jsonl' })).rejects.toThrow(
      `cannot read its documents ${resolve('nowhere.jsonl')}`,
    );
    await expect(
      open({ documents: await corpus([{ id: '0', contents: 'a' }, { id: '1' }]) }),
    ).rejects.toThrow(/line 2 has neither contents nor text/);
    await expect(open({})).rejects.toThrow('retrieval_service_url');
  });
});

describe('mathematics', () => {
  const open = async (name: string) =>
    (await toolsFromConfig([{ name }], { directory: '.', source: 'here' })).tools;

  test('tools that a file names only by name have their own schema', async () => {
    const calls: [string, object, string][] = [
      ['calculator', { expression: '2(3+4)' }, '14'],
      ['geometry_calculator', { formula: 'hypotenuse', values: { leg: 3, other_leg: 4 } }, 'hypotenuse = 5'],
      [
        'angle_solver',
        { relation: 'triangle', angles: ['2x', 'x', '90'] },
        'x = 30; the angles are 60, 30, 90',
      ],
      ...(hasComputeEngine
        ? [
            ['symbolic_maths', { operation: 'differentiate', expression: 'x^2' }, '2x'] as [
              string,
              object,
              string,
            ],
          ]
        : []),
    ];
    for (const [name, given, result] of calls) {
      const tools = await open(name);
      expect(Object.keys(tools[0]!.schema.function.parameters.properties ?? {})).toEqual(
        expect.arrayContaining(Object.keys(given)),
      );
      expect((await callOnce(tools, name, given)).result).toBe(result);
    }
  }, 60_000);

  test.skipIf(!hasComputeEngine)(
    'algebra without a result is told to the model',
    async () => {
      const run = await callOnce(await open('symbolic_maths'), 'symbolic_maths', {
        operation: 'solve',
        expression: 'x = x + 1',
      });
      expect(run.problem).toMatchObject({ kind: 'tool-threw' });
      expect(run.result).toContain('no solution for x was found');
    },
    60_000,
  );
});

describe('the code interpreter in a sandbox of this machine', () => {
  const open = async (config: object) =>
    (
      await toolsFromConfig(
        [
          {
            name: 'code_interpreter',
            parameters: { type: 'object', properties: { code: { type: 'string' } }, required: ['code'] },
            config,
          },
        ],
        { directory: '.', source: 'here' },
      )
    ).tools;

  test('it runs JavaScript, in a fence or not, and tells the model of errors and limits', async () => {
    const tools = await open({ language: 'javascript', boundary: 'interpreter' });
    const run = async (code: string) => (await callOnce(tools, 'code_interpreter', { code })).result;
    expect(await run('console.log(6 * 7)')).toBe('42\n');
    expect(await run('```js\nconsole.log(1)\n```')).toBe('1\n');
    expect(await run('nothing()')).toContain('ReferenceError');
    const hasty = await open({ language: 'javascript', boundary: 'interpreter', default_timeout: 0.5 });
    expect((await callOnce(hasty, 'code_interpreter', { code: 'for (;;);' })).result).toBe(
      '[ended: it took too long]',
    );
    expect(await run('1 + 1')).toBe('(nothing was printed)');
  });

  test('another language or boundary is refused before the start', async () => {
    await expect(open({ language: 'cobol' })).rejects.toThrow(
      'runs javascript, typescript, python; config.language is "cobol"',
    );
    await expect(open({ language: 'javascript', boundary: 'none' })).rejects.toThrow(
      "boundary is 'system' or 'interpreter'; it is \"none\"",
    );
  });
});

describe('code scored by its tests', () => {
  test('the share of tests that pass, by output and by assertion', async () => {
    const sandbox = await openSandbox('javascript', { milliseconds: 2000, boundary: 'interpreter' });
    onTestFinished(() => sandbox.close());
    const score = async (text: string, groundTruth: unknown) => {
      const [group] = await rollout({
        tasks: [{ index: 0, task: { groundTruth } }],
        attempts: 1,
        step: 1,
        agent: toolLoop({ prompt: 'Write it.' }),
        server: scriptedEngine({ tokenizer, reply: () => text }),
        format,
        rewards: [codeReward(sandbox)],
        seed: 1,
        failures: { retries: 0, tolerateShare: 1 },
      });
      return group!.attempts[0]!;
    };
    const doubles = 'Here:\n```js\nconsole.log(2 * Number(stdin))\n```';
    expect((await score(doubles, { inputs: ['1', '2'], outputs: ['2', '5'] })).reward).toBe(0.5);
    expect((await score(doubles, '{"inputs": ["4"], "outputs": ["8 \\n"]}')).reward).toBe(1);
    const asserts = ['if (f(1) !== 2) throw 1', 'if (f(2) !== 3) throw 1', 'f.g.h'];
    expect((await score('function f(x) { return x + 1 }', asserts)).reward).toBeCloseTo(2 / 3);
    expect((await score(doubles, { inputs: ['1'], outputs: [] })).trajectory.end).toMatchObject({
      kind: 'failed',
      boundary: 'reward',
      message: expect.stringContaining('of equal length'),
    });
  });
});
