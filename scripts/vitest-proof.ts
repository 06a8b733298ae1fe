import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Aim, atLeast, atMost } from './verdict.ts';

interface VitestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
}

/** Runs test files with the environment that makes them thorough. A test that was skipped has proved nothing. */
export function proveByTests(files: readonly string[], environment: Readonly<Record<string, string>>): Aim[] {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-prove-'));
  const report = join(folder, 'report.json');
  try {
    spawnSync(
      'npx',
      ['vitest', 'run', ...files, '--reporter=default', '--reporter=json', `--outputFile.json=${report}`],
      { stdio: 'inherit', env: { ...process.env, ...environment } },
    );
    const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(
      readFileSync(report, 'utf8'),
    ) as VitestReport;
    return [
      atLeast('tests that pass', numPassedTests, 1),
      atMost('tests that fail', numFailedTests, 0),
      atMost('tests that this machine cannot run', numPendingTests, 0),
    ];
  } finally {
    rmSync(folder, { recursive: true });
  }
}
