/** Writes LICENCES.md from the lockfile: what is installed with the package, and under which licence. */
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

interface Locked {
  readonly version: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export function licencesPage(lockfile: string): string {
  const { packages } = JSON.parse(lockfile) as { packages: Readonly<Record<string, Locked>> };
  const installed = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev);
  const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  /** Builds for one platform say nothing themselves where they were not downloaded: they are parts of their package. */
  const ownerOf = (name: string) =>
    installed.find(([, { optionalDependencies = {} }]) => name in optionalDependencies)?.[1];
  const rows = installed.map(([path, { version, license }]) => {
    const name = nameOf(path);
    return `| ${name} | ${version} | ${license ?? ownerOf(name)?.license ?? 'unknown'} |`;
  });
  return `# Licences

Rollcall is under Apache-2.0 (LICENSE). What \`npm install rollcall\` brings along, by the lockfile; \`npm run docs:licences\` writes this file.

| package | version | licence |
| --- | --- | --- |
${[...new Set(rows)].sort().join('\n')}
`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync('LICENCES.md', licencesPage(readFileSync('package-lock.json', 'utf8')));
}
