import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { taskRow } from '../../verl/task-row.ts';
import { prepareCode } from './code.ts';
import { prepareGeo3k } from './geo3k.ts';
import { parseTerm, sayProblem, sayTerm } from './geometry-text.ts';
import { GSM8K_STYLES, prepareGsm8k } from './gsm8k.ts';
import type { PreparedRow } from './preparation.ts';
import { prepareSearchR1 } from './search-r1.ts';
import { unzip } from './unzip.ts';

const folder = (files: Record<string, string | Uint8Array>) => {
  const root = mkdtempSync(join(tmpdir(), 'rollcall-prepare-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(root, name, '..'), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return { path: root, hub: 'none/none' };
};
async function rowsOf(rows: AsyncIterable<PreparedRow> | undefined): Promise<PreparedRow[]> {
  const list: PreparedRow[] = [];
  for await (const row of rows ?? []) list.push(row);
  return list;
}

const QUESTION = { question: 'How many?', answer: 'It is <<1+1=2>>2.\n#### 1,234' };
const gsm8k = () =>
  folder({ 'train.jsonl': `${JSON.stringify(QUESTION)}\n`, 'test.jsonl': `${JSON.stringify(QUESTION)}\n` });

describe('GSM8K', () => {
  test.each(GSM8K_STYLES)('%s has verl’s columns and is a task', async (style) => {
    const splits = await prepareGsm8k(gsm8k(), style);
    const [row] = await rowsOf(splits.test);
    expect(row).toMatchObject({
      data_source: 'openai/gsm8k',
      ability: 'math',
      reward_model: { style: 'rule', ground_truth: '1234' },
      extra_info: { split: 'test', index: 0, question: 'How many?', answer: QUESTION.answer },
    });
    const task = taskRow(row!);
    expect(task.agentName).toBe(style === 'agent-loop' ? 'tool_agent' : undefined);
    expect(task.prompt.map(({ role }) => role)).toEqual(style === 'plain' ? ['user'] : ['system', 'user']);
    expect(task.toolsKwargs).toEqual(
      style === 'tool' || style === 'agent-loop'
        ? { calc_gsm8k_reward: { create_kwargs: { ground_truth: '1234' } } }
        : {},
    );
    if (style === 'interaction') {
      expect(task.interactionKwargs).toEqual({ name: 'gsm8k', query: 'How many?', ground_truth: '1234' });
    }
  });

  test('an answer without #### is named by file and line', async () => {
    const origin = folder({ 'train.jsonl': '{"question":"q","answer":"two"}\n', 'test.jsonl': '{}\n' });
    const splits = await prepareGsm8k(origin, 'plain');
    await expect(rowsOf(splits.train)).rejects.toThrow(/answer has no `#### number`: "two"/);
  });

  test('files that are not there are said', async () => {
    await expect(prepareGsm8k(folder({ 'x.txt': '' }), 'plain')).rejects.toThrow(
      'no file for the split train',
    );
  });
});

describe('the hub', () => {
  const line = `${JSON.stringify(QUESTION)}\n`;
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    if (request.url?.startsWith('/api/datasets/openai/gsm8k/tree/')) {
      const file = (path: string) => ({ type: 'file', oid: 'a', size: line.length, path });
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify([file('main/train.jsonl'), file('main/test.jsonl'), file('socratic/train.jsonl')]),
      );
    } else if (request.url?.includes('/resolve/')) {
      response.setHeader('etag', '"abc"');
      response.setHeader('x-repo-commit', 'c'.repeat(40));
      response.setHeader('content-length', line.length);
      response.setHeader('content-range', `bytes 0-0/${line.length}`);
      response.end(request.method === 'HEAD' ? undefined : line);
    } else if (request.url?.includes('/paths-info/')) {
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify([
          {
            type: 'file',
            path: 'x',
            oid: `${asked.length}`,
            size: line.length,
            lastCommit: { id: 'c'.repeat(40), title: '', date: '2026-01-01T00:00:00Z' },
          },
        ]),
      );
    } else {
      response.statusCode = 404;
      response.end();
    }
  });
  afterAll(() => server.close());

  test('is asked for the files of a dataset, and the variant main is taken', async () => {
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    process.env.HF_HUB_CACHE = mkdtempSync(join(tmpdir(), 'rollcall-hub-'));
    const hubUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const splits = await prepareGsm8k({ hub: 'openai/gsm8k', hubUrl }, 'plain');
    expect(await rowsOf(splits.train)).toHaveLength(1);
    expect(asked.some((url) => url.includes('/resolve/') && url.includes('main/train.jsonl'))).toBe(true);
    expect(asked.some((url) => url.includes('/resolve/') && url.includes('socratic'))).toBe(false);
  });

  test('that does not answer is said, with what to do', async () => {
    const origin = { hub: 'openai/gsm8k', hubUrl: 'http://127.0.0.1:9' };
    await expect(prepareGsm8k(origin, 'plain')).rejects.toThrow(/cannot be fetched .* --local_dataset_path/);
  });
});

test('Search-R1 takes its own columns and HotpotQA’s', async () => {
  const splits = await prepareSearchR1(
    folder({
      'train.jsonl': '{"question":"Who?","golden_answers":["A","B"],"data_source":"nq"}\n',
      'x_dev.jsonl': '{"question_text":"What?","answers_objects":[{"spans":["C"]}]}\n',
    }),
  );
  expect(await rowsOf(splits.train)).toMatchObject([
    {
      data_source: 'searchR1_nq',
      reward_model: { ground_truth: { target: ['A', 'B'] } },
      extra_info: { index: 0 },
    },
  ]);
  const [dev] = await rowsOf(splits.test);
  expect(taskRow(dev!)).toMatchObject({
    dataSource: 'searchR1_hotpotqa',
    toolsKwargs: { search: { create_kwargs: { ground_truth: { target: ['C'] }, question: 'What?' } } },
  });
});

test('MBPP is split by its own numbers and carries its tests', async () => {
  const row = (number: number) =>
    JSON.stringify({
      task_id: `MBTSP/${number}`,
      prompt: 'const f = ',
      test: 'assert',
      entry_point: 'f',
      description: 'd',
    });
  const splits = await prepareCode(
    folder({ 'mbtsp_release.jsonl': [1, 11, 510, 511].map(row).join('\n') }),
    'typescript',
  );
  expect((await rowsOf(splits.train)).map(({ extra_info }) => extra_info.task_id)).toEqual([
    'MBTSP/1',
    'MBTSP/511',
  ]);
  expect((await rowsOf(splits.test))[0]).toMatchObject({
    data_source: 'mbpp-typescript',
    reward_model: {
      ground_truth: { language: 'typescript', asserts: [expect.stringContaining('\nassert')] },
    },
  });
});

/** A zip archive with stored files, by the format's description. */
function zipOf(files: Record<string, Uint8Array>): Uint8Array {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, bytes] of Object.entries(files)) {
    const head = Buffer.alloc(30);
    head.writeUInt32LE(0x04034b50, 0);
    head.writeUInt32LE(crc32?.(bytes) ?? 0, 14);
    head.writeUInt32LE(bytes.length, 18);
    head.writeUInt32LE(bytes.length, 22);
    head.writeUInt16LE(name.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt32LE(bytes.length, 20);
    entry.writeUInt32LE(bytes.length, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    directory.push(entry, Buffer.from(name));
    parts.push(head, Buffer.from(name), Buffer.from(bytes));
    offset += 30 + name.length + bytes.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt32LE(Buffer.concat(directory).length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, ...directory, end]);
}

describe('Geometry3K', () => {
  const problem = { id: 7, compact_text: 'Find x.', compact_choices: ['30', '40', '60', '80'], answer: 'D' };
  const image = new Uint8Array([0x89, 0x50]);

  test('from the original zip: the answer is the chosen value, the image goes where <image> stands', async () => {
    const zip = zipOf({
      'train/7/data.json': Buffer.from(JSON.stringify(problem)),
      'train/7/img_diagram.png': image,
      'train/7/logic_form.json': Buffer.from('{}'),
    });
    const splits = await prepareGeo3k(folder({ 'train.zip': zip }), 'tool');
    const [row] = await rowsOf(splits.train);
    expect(row).toMatchObject({
      data_source: 'hiyouga/geometry3k',
      reward_model: { ground_truth: '80' },
      extra_info: { problem_id: 7, need_tools_kwargs: true },
    });
    const [message] = taskRow(row!).prompt;
    expect(Array.isArray(message?.content) && message.content[0]).toEqual({
      type: 'image',
      source: { bytes: Buffer.from(image) },
    });
  });

  test('from annotated points a diagram is drawn', async () => {
    const diagram = {
      point_positions: { A: [0, 0], B: [100, 0], C: [0, 100] },
      line_instances: ['AB', 'BC', 'CA'],
      circle_instances: [''],
      diagram_logic_forms: ['Equals(LengthOf(Line(A, B)), 3)', 'Perpendicular(Line(A, B), Line(A, C))'],
    };
    const splits = await prepareGeo3k(
      folder({
        'diagram_logic_forms_annot.json': JSON.stringify({ 5: diagram }),
        'text_logic_forms_annot.json': JSON.stringify({
          5: { text_logic_forms: ['Find(LengthOf(Line(B,C)))'] },
        }),
        'test_numeric_answers_from_solver_logs.json': '{"5": 4.242640687}',
      }),
      'plain',
    );
    const [row] = await rowsOf(splits.test);
    expect(row!.prompt[0]!.content).toMatch(
      /^<image>Given that AB is perpendicular to AC, find the length of BC\./,
    );
    expect(row!.reward_model.ground_truth).toBe('4.2426');
    const [drawn] = row!.images as { bytes: Uint8Array }[];
    expect([...drawn!.bytes.subarray(0, 4)]).toEqual([0x89, 0x50, 0x4e, 0x47]);
    expect(drawn!.bytes.length).toBeGreaterThan(500);
  });

  test.each([
    ['Equals(LengthOf(Line(A, B)), x+21)', 'the length of AB = x+21'],
    ['Find(MeasureOf(Angle(A,B,C)))', 'find the measure of angle ABC'],
    ['IsMidpointOf(Point(M),Line(A,B))', 'M is the midpoint of AB'],
    ['PointLiesOnCircle(S, Circle(P, radius_5_0))', 'S lies on circle P'],
    ['Similar(Triangle(A,B,C),Triangle(D,E,F))', 'triangle ABC is similar to triangle DEF'],
  ])('%s', (form, words) => {
    expect(sayTerm(parseTerm(form))).toBe(words);
  });

  test('a problem says what is given before what to find', () => {
    expect(sayProblem(['Find(y)', 'Parallelogram(M,N,P,R)'])).toBe(
      'Given that MNPR is a parallelogram, find y.',
    );
  });

  test('what is no zip is said', async () => {
    const { path } = folder({ 'train.zip': 'not a zip' });
    await expect(unzip(join(path, 'train.zip')).next()).rejects.toThrow('is not a whole zip archive');
  });
});
