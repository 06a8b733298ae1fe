import { execFileSync } from 'node:child_process';
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Dataset } from './dataset.ts';
import { csv, jsonl, openDataset, parquet } from './open.ts';
import { writeParquet } from './write-parquet.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-dataset-'));
const at = (name: string, text?: string) => {
  const path = join(folder, name);
  if (text !== undefined) writeFileSync(path, text);
  return path;
};
async function all<T>(dataset: Dataset<T>): Promise<T[]> {
  const rows: T[] = [];
  for await (const { row } of dataset.rows()) rows.push(row);
  return rows;
}

describe('parquet written by pandas and pyarrow', () => {
  // Made by pandas 3 and pyarrow: 7 rows in verl's columns; the second file has row groups of 3, pages v2, zstd.
  test.each(['pandas-snappy', 'pyarrow-zstd'])('%s.parquet reads as it was written', async (name) => {
    const rows = await all(await parquet(`test/data/${name}.parquet`));
    expect(rows).toHaveLength(7);
    expect(rows[4]).toMatchObject({
      data_source: 'openai/gsm8k',
      prompt: [
        { role: 'system', content: 'Be exact.' },
        { role: 'user', content: 'What is 4+4? ünï <code>' },
      ],
      reward_model: { style: 'rule', ground_truth: '8' },
      extra_info: {
        index: 4,
        need_tools_kwargs: true,
        tools_kwargs: { calc_gsm8k_reward: { create_kwargs: { ground_truth: '8' } } },
      },
      images: [{ bytes: new Uint8Array([0, 255, 4]) }],
      score: 1,
      flag: true,
    });
    expect(rows.map((row) => row.big)).toEqual([0, 1, 2, 3, 4, 5, 2n ** 62n]); // a number cannot hold the last
    expect(rows[3]!.agent_name ?? null).toBeNull();
    expect(Object.keys(rows[0]!)).not.toContain('__index_level_0__');
  });

  test('a column can be read alone, and one that is not there is named', async () => {
    expect(
      await all((await parquet('test/data/pyarrow-zstd.parquet', { columns: ['score'] })).take(2)),
    ).toEqual([{ score: 0 }, { score: 0.25 }]);
    await expect(parquet('test/data/pyarrow-zstd.parquet', { columns: ['scores'] })).rejects.toThrow(
      /has no column scores; its columns are data_source, prompt/,
    );
  });
});

/** Opens files in a process where `hyparquet-compressors` is not installed: of each the number of rows, or the error. */
function readWithoutCompressors(...paths: string[]): string[] {
  const hooks = `export const resolve = (name, context, next) => {
    if (name !== 'hyparquet-compressors') return next(name, context);
    throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: 'ERR_MODULE_NOT_FOUND' });
  }`;
  const script = `
    import { register } from 'node:module';
    register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));
    const { parquet } = await import('./src/dataset/open.ts');
    for (const path of ${JSON.stringify(paths)}) {
      const read = async () => { let rows = 0; for await (const _ of (await parquet(path)).rows()) rows++; return rows; };
      console.log(await read().catch((error) => error.name + ': ' + error.message));
    }`;
  const node = ['--import', './bin/register.js', '--input-type=module', '--eval', script];
  return execFileSync(process.execPath, node, { encoding: 'utf8' }).trim().split('\n');
}

test('snappy needs no other package; another compression names the package to install', () => {
  const read = readWithoutCompressors('test/data/pandas-snappy.parquet', 'test/data/pyarrow-zstd.parquet');
  expect(read).toEqual([
    '7',
    'ConfigError: test/data/pyarrow-zstd.parquet: a parquet file compressed by ZSTD needs packages that are not installed: npm install hyparquet-compressors',
  ]);
});

test('nested lists, maps, structs and nulls of DuckDB, over several row groups, read as DuckDB reads them', async () => {
  const path = at('duckdb.parquet');
  const connection = await (await DuckDBInstance.create()).connect();
  await connection.run(`copy (select i,
      case when i % 7 = 0 then null else list_transform(range(i % 5), lambda x: case when x = 2 then null else
        {name: 'n' || x, tags: case when x = 1 then null else list_transform(range(x), lambda y: (y * i)::int) end} end) end as nested,
      case when i % 3 = 0 then null else map([i::varchar, 'k'], [i % 11, null]) end as m,
      {a: {b: case when i % 4 = 0 then null else i / 8 end}, c: case when i % 5 = 0 then null else 'ü' || i end} as s,
      [[i, null], [], null] as twice, i % 2 = 0 as flag, date '2024-01-01' as day
    from range(9000) t(i)) to '${path}' (format parquet, row_group_size 2048)`);
  const answer = await connection.runAndReadAll(
    `select i::int i, to_json(nested) nested, to_json(m) m, to_json(s) s, to_json(twice) twice, flag from '${path}'`,
  );
  const expected = answer.getRowObjectsJson();
  const dataset = await parquet(path);
  expect(dataset.length).toBe(9000);
  const theirs = (row: (typeof expected)[number]) => ({
    ...row,
    ...Object.fromEntries(
      ['nested', 'm', 's', 'twice'].map((name) => [
        name,
        row[name] === null ? null : JSON.parse(String(row[name])),
      ]),
    ),
  });
  const checkRow = (row: Readonly<Record<string, unknown>>, index: number) => {
    const { day, ...rest } = row;
    expect(rest).toEqual(theirs(expected[index]!));
    expect(day).toEqual(new Date('2024-01-01'));
  };
  for await (const { row, index } of dataset.rows()) if (index % 3 !== 1) checkRow(row, index);
  for (const place of [8999, 0, 4095, 4096, 1, 6000]) checkRow(await dataset.at(place), place);
});

describe('parquet written here', () => {
  test('DuckDB reads nested columns, bytes and nulls as they were', async () => {
    const path = at('ours.parquet');
    await writeParquet(path, [
      {
        prompt: [{ role: 'user', content: 'a' }],
        extra_info: { index: 1, deep: { kwargs: { n: 1.5 } } },
        image: new Uint8Array([1, 255]),
        list: [],
      },
      { prompt: [], extra_info: { index: 2, deep: null }, image: null, list: ['x', null] },
    ]);
    const connection = await (await DuckDBInstance.create()).connect();
    const answer = await connection.runAndReadAll(
      `select prompt[1].content c, extra_info.index::int i, extra_info.deep.kwargs.n n, hex(image) h, list::varchar l from '${path}'`,
    );
    expect(answer.getRowObjectsJson()).toEqual([
      { c: 'a', i: 1, n: 1.5, h: '01FF', l: '[]' },
      { c: null, i: 2, n: null, h: null, l: '[x, NULL]' },
    ]);
    const schema = await connection.runAndReadAll(`describe select * from '${path}'`);
    expect(schema.getRowObjectsJson().map((row) => row.column_type)).toEqual([
      'STRUCT("role" VARCHAR, "content" VARCHAR)[]',
      'STRUCT("index" BIGINT, deep STRUCT(kwargs STRUCT(n DOUBLE)))',
      'BLOB',
      'VARCHAR[]',
    ]);
  });

  test('any rows of one shape come back', async () => {
    const row = fc.record({
      text: fc.string({ unit: 'grapheme' }),
      whole: fc.maxSafeInteger(),
      real: fc.double({ noNaN: true }),
      flag: fc.boolean(),
      list: fc.array(fc.record({ role: fc.string({ unit: 'grapheme' }), n: fc.integer() })),
      bytes: fc.uint8Array(),
    });
    let number = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 20 }), async (rows) => {
        const path = at(`any-${number++}.parquet`);
        await writeParquet(path, rows, {
          text: 'string',
          whole: 'integer',
          real: 'number',
          flag: 'boolean',
          list: { list: { struct: { role: 'string', n: 'integer' } } },
          bytes: 'bytes',
        });
        const dataset = await parquet(path);
        expect(await all(dataset)).toEqual(rows);
        await dataset.close();
      }),
      { numRuns: 25 },
    );
  });

  test('a column of two types, and a row that does not fit, are named', async () => {
    await expect(writeParquet(at('x.parquet'), [{ a: 1 }, { a: 'one' }])).rejects.toThrow(
      'row 1, column a: holds integer in one row and string in another',
    );
    await expect(writeParquet(at('y.parquet'), [{ a: 'x' }], { a: 'integer' })).rejects.toThrow(
      /y\.parquet, row 0, column a: holds string, but is a column of integer/,
    );
    await expect(writeParquet(at('z.parquet'), [])).rejects.toThrow('there are no rows');
  });
});

describe('JSONL and CSV', () => {
  test('lines are rows; blank ones are not, and the last needs no end', async () => {
    const dataset = await jsonl(at('a.jsonl', '{"a":1}\n\n  \n{"a":"ü"}\r\n{"a":[3]}'));
    expect(dataset.length).toBe(3);
    expect(await all(dataset)).toEqual([{ a: 1 }, { a: 'ü' }, { a: [3] }]);
    expect(await dataset.at(1)).toEqual({ a: 'ü' });
  });

  test('CSV follows RFC 4180; JSON cells are values, numbers stay text', async () => {
    const dataset = await csv(
      at('a.csv', '\ufeffquestion,answer,info\n"a, ""b""\nc",007,"{""n"": 1}"\r\nplain,,[x\n'),
    );
    expect(await all(dataset)).toEqual([
      { question: 'a, "b"\nc', answer: '007', info: { n: 1 } },
      { question: 'plain', answer: '', info: '[x' },
    ]);
  });

  test('any table of text comes back from CSV', async () => {
    let number = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.string(), fc.string()), { minLength: 1, maxLength: 8 }),
        async (cells) => {
          const quoted = (cell: string) => `"${cell.replaceAll('"', '""')}"`;
          const text = [['a', 'b'], ...cells].map((row) => row.map(quoted).join(',')).join('\r\n');
          const dataset = await csv(at(`any-${number++}.csv`, text));
          const isJson = (cell: string) => /^\s*[[{]/.test(cell);
          const rows = await all(dataset);
          await dataset.close();
          expect(rows).toHaveLength(cells.length);
          rows.forEach((row, index) => {
            for (const [column, name] of ['a', 'b'].entries()) {
              const cell = cells[index]![column]!;
              if (!isJson(cell)) expect(row[name]).toBe(cell);
            }
          });
        },
      ),
      { numRuns: 50 },
    );
  });

  test('several files of several kinds are numbered through', async () => {
    const dataset = await openDataset([
      at('one.jsonl', '{"n":0}\n{"n":1}\n'),
      at('two.csv', 'n\n2\n'),
      at('three.json', '[{"n":3}]'),
    ]);
    expect((await all(dataset)).map(({ n }) => Number(n))).toEqual([0, 1, 2, 3]);
    expect(await dataset.at(2)).toEqual({ n: '2' });
  });
});

describe('bad files', () => {
  test.each([
    ['bad.jsonl', '{"a":1}\n{"a":\n', /bad\.jsonl:2 \(row 1\): not JSON: .*the line is/],
    ['list.jsonl', '[1]\n', /list\.jsonl:1 \(row 0\): a row is an object, not \[1\]/],
    ['short.csv', 'a,b\n1\n', /short\.csv:2 \(row 0\): has 1 cells, but the header names 2 columns/],
    ['open.csv', 'a\n"x\n', /open\.csv:2 .*column 1 opens a quote and never closes it/],
    ['after.csv', 'a\n"x"y\n', /after\.csv:2 .*column 1 has "y" after its closing quote/],
    ['one.json', '{"a":1}', /one\.json: holds object, not a list/],
    ['no.txt', '', /a dataset is a file that ends in \.jsonl/],
    ['no.parquet', 'PAR1 this is not one', /no\.parquet: not a readable parquet file \(20 bytes\)/],
  ])('%s', async (name, text, message) => {
    await expect(openDataset(at(name, text)).then(all)).rejects.toThrow(message);
  });

  test('a parquet file cut short is one that stopped early', async () => {
    const whole = readFileSync('test/data/pandas-snappy.parquet');
    writeFileSync(at('cut.parquet'), whole.subarray(0, whole.length / 2));
    await expect(parquet(at('cut.parquet'))).rejects.toThrow(
      /cut\.parquet: not a readable parquet file .*stopped early/,
    );
  });

  test('damage inside a parquet file is named by rows and column', async () => {
    const path = at('damaged.parquet');
    copyFileSync('test/data/pyarrow-zstd.parquet', path);
    const bytes = readFileSync(path);
    bytes.fill(0xff, 4, 60); // the first column chunk: data_source of rows 0 to 2
    writeFileSync(path, bytes);
    await expect(all(await parquet(path))).rejects.toThrow(
      /damaged\.parquet, rows 0–2, column data_source: cannot be decoded/,
    );
    const dataset = await parquet(path, { skipBad: true });
    expect(await all(dataset)).toHaveLength(4);
    expect(dataset.bad.map(({ index }) => index)).toEqual([0, 1, 2]);
  });

  test('a missing file, a folder and an empty list are said', async () => {
    await expect(openDataset(at('none.jsonl'))).rejects.toThrow(/none\.jsonl: there is no such file/);
    await expect(openDataset(folder)).rejects.toThrow(/is not a file/);
    await expect(openDataset([])).rejects.toThrow('at least one file');
  });

  test('skipBad passes over bad rows and counts them', async () => {
    const path = at('some.jsonl', '{"a":1}\nnot json\n{"a":2}\n');
    appendFileSync(path, 'nor this');
    const dataset = await jsonl(path, { skipBad: true });
    expect(await all(dataset)).toEqual([{ a: 1 }, { a: 2 }]);
    expect(dataset.bad.map(({ index }) => index)).toEqual([1, 3]);
  });
});
