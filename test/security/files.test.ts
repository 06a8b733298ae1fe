/** Model and dataset files are data. Each attack is refused; its control shows what it does where nothing looks. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import { parquetMetadata } from 'hyparquet';
import { tool } from 'rollcall';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { zipOf } from '../../scripts/fuzz/zip-of.ts';
import { checkTokenizer } from '../../src/chat/check-tokenizer.ts';
import { compileTemplate } from '../../src/chat/template.ts';
import { parquetSource } from '../../src/dataset/parquet.ts';
import { checkPage } from '../../src/dataset/parquet-page.ts';
import { unzip } from '../../src/dataset/prepare/unzip.ts';
import { writeParquet } from '../../src/dataset/write-parquet.ts';
import { headerLength, parseSafetensorsHeader } from '../../src/engine/safetensors.ts';
import { yamlLeaves } from '../../src/options/yaml-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-security-'));
const bytes = (text: string) => new TextEncoder().encode(text);

/** A reader that believes what a file says of itself. */
const believe = (header: string) =>
  Object.values(JSON.parse(header) as Record<string, { data_offsets: number[] }>);

const tensor = (shape: number[], data_offsets: number[]) => ({ dtype: 'F32', shape, data_offsets });

test.each([
  ['that lie outside the file', { a: tensor([1000], [0, 4000]) }],
  ['that overlap', { a: tensor([2], [0, 8]), b: tensor([2], [4, 12]) }],
  ['that end before they begin', { a: tensor([2], [8, 0]) }],
  ['of a size that is no number', { a: tensor([2 ** 53, 2 ** 53], [0, 8]) }],
  ['of negative size', { a: tensor([-2, -1], [0, 8]) }],
])('safetensors: tensors %s are refused', (_, header) => {
  const text = JSON.stringify(header);
  expect(believe(text).length).toBeGreaterThan(0); // whoever does not look takes them
  expect(() => parseSafetensorsHeader(bytes(text), 8 + text.length + 12, 'x.safetensors')).toThrow(
    'x.safetensors',
  );
});

test.each([2 ** 40, 99_999_999, 0])(
  'safetensors: a header of %d bytes in a small file is refused',
  (length) => {
    const first8 = new Uint8Array(8);
    new DataView(first8.buffer).setBigUint64(0, BigInt(length), true);
    expect(Number(new DataView(first8.buffer).getBigUint64(0, true))).toBe(length); // what a believing reader allocates
    expect(() => headerLength(first8, 200, 'x.safetensors')).toThrow('x.safetensors');
  },
);

test('parquet: a footer that lies about its length, its rows or its pages is refused', async () => {
  const write = (name: string, content: Uint8Array) => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const footer = (length: number) => {
    const file = Buffer.alloc(64);
    file.write('PAR1', 0, 'latin1');
    file.writeUInt32LE(length, 56);
    file.write('PAR1', 60, 'latin1');
    return file;
  };
  for (const length of [0, 50, 1000, 0xffffffff]) {
    await expect(parquetSource(write(`${length}.parquet`, footer(length)))).rejects.toThrow('.parquet');
  }
});

test('parquet: rows that the file says it has and its row groups have not are refused', async () => {
  const path = join(folder, 'rows.parquet');
  await writeParquet(path, [{ a: 'x' }]);
  const file = readFileSync(path);
  // num_rows of the footer: field 3, a zigzag integer.
  const at = file.indexOf(Buffer.of(0x16, 0x02), file.length - 8 - file.readUInt32LE(file.length - 8));
  file[at + 1] = 0x06;
  writeFileSync(path, file);
  expect(parquetMetadata(Uint8Array.from(file).buffer).num_rows).toBe(3n); // the library believes it
  await expect(parquetSource(path)).rejects.toThrow('it says that it has 3 rows, and its row groups have 1');
});

test('parquet: a page that says it unfolds to gigabytes is refused before anything is allocated', () => {
  const page = (uncompressed_page_size: number, num_values: number) => ({
    ...{ type: 'DATA_PAGE', compressed_page_size: 50, uncompressed_page_size },
    data_page_header: { num_values, encoding: 'PLAIN' },
  });
  const check = (size: number, values: number) => checkPage(page(size, values) as never, 100, 0);
  expect(() => check(1000, 10)).not.toThrow();
  expect(new Uint8Array(2 ** 31 - 1).length).toBe(2 ** 31 - 1); // what a believing reader allocates
  expect(() => check(2 ** 31 - 1, 10)).toThrow('a page of 50 bytes says that it unfolds to 2147483647');
  expect(() => check(1000, 2 ** 31 - 1)).toThrow('2147483647 values');
  expect(() => checkPage({ ...page(1000, 10), compressed_page_size: -50 } as never, 100, 0)).toThrow(
    '-50 bytes',
  );
});

test('zip: a file of some hundred kilobytes that unfolds to gigabytes is refused', async () => {
  const megabyte = deflateRawSync(Buffer.alloc(2 ** 20), { finishFlush: constants.Z_FULL_FLUSH });
  const last = deflateRawSync(Buffer.alloc(0));
  expect(inflateRawSync(Buffer.concat([megabyte, last])).length / megabyte.length).toBeGreaterThan(900);
  const packed = Buffer.concat([...Array.from({ length: 3000 }, () => megabyte), last]);
  const path = join(folder, 'bomb.zip');
  writeFileSync(path, zipOf([{ name: 'a.json', packed, method: 8 }]));
  const read = async () => {
    for await (const file of unzip(path)) await file.read();
  };
  await expect(read()).rejects.toThrow('a.json unfolds to more than 256 MiB');
});

const laughs = (levels: number) => {
  const names = Array.from({ length: levels }, (_, at) => `a${at}`);
  const line = (name: string, at: number) =>
    at === 0
      ? `${name}: &${name} [x, x, x, x, x, x, x, x, x]`
      : `${name}: &${name} [${Array.from({ length: 9 }, () => `*${names[at - 1]}`).join(', ')}]`;
  return names.map(line).join('\n');
};

test('YAML: aliases that unfold to billions are refused', () => {
  const count = (value: unknown): number =>
    Array.isArray(value) ? value.reduce((sum: number, one) => sum + count(one), 0) : 1;
  const believed = parse(laughs(6), { maxAliasCount: -1 }) as Record<string, unknown>;
  expect(count(believed['a5'])).toBe(9 ** 6);
  expect(() => yamlLeaves(laughs(12), 'run.yaml', () => true)).toThrow(/alias/i);
});

test('YAML: tags of other languages make no objects and run nothing', () => {
  const leaves = yamlLeaves(
    'a: !!js/function "function () { globalThis.ran = true }"\nb: !!python/object/apply:os.system ["x"]',
    'run.yaml',
    () => true,
  );
  expect(leaves.map(({ value }) => typeof value)).not.toContain('function');
  expect((globalThis as { ran?: boolean }).ran).toBeUndefined();
});

const render = (source: string) =>
  compileTemplate(source, { variables: {}, date: new Date(0) })({
    messages: [{ role: 'user', content: 'x' }],
    tools: [],
    addGenerationPrompt: true,
  });

test.each([
  [
    'loops within loops',
    '{% for a in range(N) %}{% for b in range(N) %}{% for c in range(N) %}{% endfor %}{% endfor %}{% endfor %}',
    '10',
    '99999',
  ],
  [
    'a text that doubles',
    '{% set n = namespace(t="xx") %}{% for i in range(N) %}{% set n.t = n.t ~ n.t %}{% endfor %}',
    '10',
    '60',
  ],
  [
    'a list that doubles',
    '{% set n = namespace(t=[1, 2]) %}{% for i in range(N) %}{% set n.t = n.t + n.t %}{% endfor %}',
    '10',
    '60',
  ],
  ['a text repeated', "{{ 'x' * N }}", '10', '1000000000'],
  ['a wide field', "{{ '%Ns' % 'x' }}", '10', '1000000000'],
  ['a centred text', "{{ 'x' | center(N) }}", '10', '1000000000'],
  ['much printed', "{% for i in range(N) %}{{ 'x' * 1000000 }}{% endfor %}", '10', '99999'],
  [
    'a macro that calls itself',
    '{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(N) }}',
    '3',
    '150',
  ],
])('template: %s, is stopped', { timeout: 60_000 }, (_, source, few, many) => {
  expect(() => render(source.replaceAll('N', few))).not.toThrow();
  expect(() => render(source.replaceAll('N', many))).toThrow();
});

test.each([
  "{{ ''.constructor.constructor('return process')() }}",
  "{{ messages.constructor.constructor('return 1')() }}",
  "{{ ''.__class__.__mro__[1].__subclasses__() }}",
  '{{ messages.__proto__.polluted }}{% set x = messages.__proto__ %}{{ x.y }}',
  "{{ range.constructor('return 1')() }}",
  '{% include "/etc/passwd" %}',
  '{% import "os" as os %}',
])('template: %s reaches nothing', (source) => {
  expect(String(''.constructor.constructor('return typeof process')())).toBe('object'); // as JavaScript it would
  expect(() => render(source)).toThrow();
});

test('a pattern of a schema that takes years is stopped, and the model is told', {
  timeout: 60_000,
}, async () => {
  const evil = '^(a|a)*$';
  const began = performance.now();
  new RegExp(evil).test(`${'a'.repeat(22)}b`);
  expect(performance.now() - began).toBeGreaterThan(5); // it doubles with each letter
  const input = { type: 'object', properties: { code: { type: 'string', pattern: evil } } };
  const { input: schema } = tool({ name: 'f', description: '', input, run: () => '' });
  expect(await schema.check({ code: `${'a'.repeat(60)}b` })).toEqual({
    wrong: [expect.stringContaining('takes longer than 100 ms')],
  });
  expect(await schema.check({ code: 'a'.repeat(60) })).toEqual({ input: { code: 'a'.repeat(60) } });
});

test('a pattern of a tokenizer that takes years is refused before it is used, and those of known models are not', () => {
  const splitBy = (Regex: string) => ({ pre_tokenizer: { type: 'Split', pattern: { Regex } } });
  for (const evil of ['^(a|a)*$', '(\\w+\\s?)*!', '(?:\\p{L}+)+\\u0001']) {
    expect(new RegExp(evil, 'u').test('aaaa\u0002')).toBe(false); // on a short text nobody notices
    expect(() => checkTokenizer(splitBy(evil), 'tokenizer.json')).toThrow('takes longer than 100 ms');
  }
  const qwen =
    "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  expect(() => checkTokenizer(splitBy(qwen), 'tokenizer.json')).not.toThrow();
});

test('arguments nested a hundred thousand deep are a mistake of the model, not the end of the program', async () => {
  const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`) as unknown;
  expect(() => JSON.stringify(deep)).toThrow(RangeError);
  const input = { type: 'object', properties: { list: { type: 'array' } } };
  const { input: schema } = tool({ name: 'f', description: '', input, run: () => '' });
  const checked = await schema.check({ list: deep }).catch((error: Error) => ({ wrong: [error.message] }));
  expect('wrong' in checked || 'input' in checked).toBe(true);
});
