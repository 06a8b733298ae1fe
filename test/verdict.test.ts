import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const node = (words: readonly string[], cwd?: string) =>
  spawnSync(process.execPath, ['--import', resolve('bin/register.js'), resolve('scripts/run.ts'), ...words], {
    encoding: 'utf8',
    cwd,
  });

/** A folder with one proof whose code is given, run as `npm run prove mine`. */
function prove(code: string, ...words: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-verdict-'));
  spawnSync('mkdir', [join(folder, 'scripts')]);
  const helpers = ['flags', 'verdict'].map((name) => `'${resolve('scripts', `${name}.ts`)}'`);
  writeFileSync(
    join(folder, 'scripts/prove-mine.ts'),
    `import { readFlags } from ${helpers[0]};\nimport { atLeast, atMost, conclude } from ${helpers[1]};\n${code}`,
  );
  const { status, stdout } = node(['prove', 'mine', ...words], folder);
  return { status, verdict: JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown> };
}

test('a proof whose aims are all reached exits with 0 and says so in its last line', () => {
  const { status, verdict } = prove(
    "conclude([atLeast('speed', 3, 2), atMost('memory', 1, 2)], { rows: 7 });",
  );
  expect(status).toBe(0);
  expect(verdict).toEqual({
    name: 'mine',
    passed: true,
    aims: [
      { aim: 'speed ≥ 2', measured: 3, passed: true },
      { aim: 'memory ≤ 2', measured: 1, passed: true },
    ],
    figures: { rows: 7 },
  });
});

test.each([
  ['a missed aim', "conclude([atLeast('speed', 1, 2), atMost('memory', 1, 2)]);"],
  ['a figure that is not a number', "conclude([atLeast('speed', Number.NaN, 2)]);"],
  ['a figure that was not measured', "conclude([atMost('memory', undefined, 2)]);"],
  ['no aim at all', 'conclude([]);'],
  ['a step that throws', "throw new Error('no such server');"],
  ['an error after an await', 'await Promise.reject(new Error());'],
  [
    'an error in a timer',
    "setTimeout(() => { throw new Error('late'); }, 10); await new Promise((r) => setTimeout(r, 2000));",
  ],
  ['an end without a verdict', ''],
])('%s exits with 1 and is not printed as passed', (_, code) => {
  const { status, verdict } = prove(code);
  expect(status).toBe(1);
  expect(verdict).toMatchObject({ name: 'mine', passed: false });
});

test('--quick takes the smaller defaults, and a flag that is given wins over them', () => {
  const code =
    "const flags = readFlags({ rows: '100', seeds: '1,2' }, { rows: '10', seeds: '1' });\nconclude([atLeast('rows', 1, 1)], flags);";
  expect(prove(code).verdict.figures).toEqual({ rows: '100', seeds: '1,2', quick: false });
  expect(prove(code, '--quick', '--seeds', '5').verdict.figures).toEqual({
    rows: '10',
    seeds: '5',
    quick: true,
  });
});

test('without a name every script is listed with a sentence, and an unknown name is told the nearest', () => {
  for (const kind of ['prove', 'bench']) {
    const { status, stdout } = node([kind]);
    expect(status).toBe(0);
    const lines = stdout.split('\n').filter((line) => line.startsWith('  '));
    expect(lines.length).toBeGreaterThan(4);
    for (const line of lines) expect(line).toMatch(/^ {2}\S+ +[A-Z`].+\.$/);
  }
  const { status, stderr } = node(['bench', 'gatway']);
  expect(status).toBe(1);
  expect(stderr).toContain('the nearest is gateway');
});
