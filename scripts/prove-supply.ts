/**
 * What comes with the package is known, sealed and without known holes: `npm run prove supply`. The lockfile and its licences
 * (test/lockfile.test.ts), the bill of materials that `npm pack` makes, and `npm audit`. A registry that takes no audits is told in
 * words, and the audit then counts neither as passed nor as failed.
 */
import { spawnSync } from 'node:child_process';
import { readFlags } from './flags.ts';
import { type Aim, atLeast, atMost, conclude } from './verdict.ts';
import { proveByTests } from './vitest-proof.ts';

readFlags({}, {});

function npmJson(...words: readonly string[]): unknown {
  const { stdout } = spawnSync('npm', [...words], {
    encoding: 'utf8',
    timeout: 120_000,
    maxBuffer: 2 ** 26,
    shell: process.platform === 'win32',
  });
  try {
    return JSON.parse(stdout);
  } catch {
    return { message: `npm ${words[0]} printed no JSON` };
  }
}

interface Audit {
  readonly message?: string;
  readonly metadata?: { readonly vulnerabilities: { readonly total: number } };
}

function audit(): { readonly aims: Aim[]; readonly said: string } {
  const { message, metadata } = npmJson('audit', '--omit=dev', '--json') as Audit;
  const total = metadata?.vulnerabilities.total;
  if (total !== undefined) {
    return {
      aims: [atMost('known holes in what is installed', total, 0)],
      said: `${total} known holes`,
    };
  }
  const why = message ?? 'no reason given';
  const said = `not audited: the registry answered npm audit with "${why}"; run this where the registry takes audits`;
  console.log(said);
  return { aims: [], said };
}

const { components = [] } = npmJson(
  ...['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only'],
) as { readonly components?: readonly unknown[] };
const tests = proveByTests(['test/lockfile.test.ts'], {});
const { aims, said } = audit();
conclude([...tests, atLeast('parts in the bill of materials', components.length, 20), ...aims], {
  audit: said,
});
