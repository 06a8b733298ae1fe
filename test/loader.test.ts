import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeEach, expect, test } from 'vitest';

interface Hooks {
  initialize(data: object): void;
  load(url: string, context: object, next: () => never): Promise<{ readonly source: string }>;
}
const { initialize, load } = (await import(new URL('../bin/hooks.js', import.meta.url).href)) as Hooks;

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'rollcall-loader-'));
  folder = join(root, 'cache');
  mkdirSync(join(root, 'ours'));
  const kept = { below: `${pathToFileURL(join(root, 'ours'))}/`, folder: `${pathToFileURL(folder)}/` };
  initialize({ entries: {}, subpaths: '', kept });
});

async function loaded(file: string): Promise<string> {
  const next = () => {
    throw new Error('a TypeScript file is loaded here');
  };
  return (await load(pathToFileURL(file).href, {}, next)).source;
}

test('a file of ours is stripped once, and again when it has changed', async () => {
  const file = join(root, 'ours', 'a.ts');
  writeFileSync(file, 'export const a: number = 1;\n');
  expect(await loaded(file)).toBe('export const a         = 1;\n');
  const [name] = readdirSync(folder);
  const kept = join(folder, name!);
  // What is kept is what is read: it stands for the text whose hash is its first line.
  writeFileSync(kept, readFileSync(kept, 'utf8').replace('= 1', '= 7'));
  expect(await loaded(file)).toBe('export const a         = 7;\n');

  writeFileSync(file, 'export const a: number = 2;\n');
  expect(await loaded(file)).toBe('export const a         = 2;\n');
  expect(readdirSync(folder)).toEqual([name]);
});

test("a user's file leaves nothing behind, and may hold an enum", async () => {
  const file = join(root, 'train.ts');
  writeFileSync(file, 'export enum Colour { Red }\n');
  expect(await loaded(file)).toMatch(/Colour\["Red"\] = 0|Colour\[Colour\["Red"\] = 0\] = "Red"/);
  expect(readdirSync(root)).toEqual(['ours', 'train.ts']);
});

test('where nothing can be kept the file is stripped each time', async () => {
  writeFileSync(folder, 'a file where the folder would be');
  const file = join(root, 'ours', 'a.ts');
  writeFileSync(file, 'export const a: number = 1;\n');
  expect(await loaded(file)).toBe('export const a         = 1;\n');
  expect(await loaded(file)).toBe('export const a         = 1;\n');
});
