import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';
import { NEEDS } from './needs.ts';

/** Says at the end of `npm test`, in words, which tests this machine could not run, and what would let it. */
export class SkippedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = modules.flatMap((module) =>
      [...module.children.allTests('skipped')].map(() => relative('.', module.moduleId)),
    );
    for (const line of skippedLines(skipped)) console.log(line);
  }
}

/** `files` has the file of each skipped test. */
export function skippedLines(files: readonly string[], needs = NEEDS): string[] {
  const told = new Set<string>();
  const lines = needs.flatMap(({ name, files: pattern, command, isThere }) => {
    const count = files.filter((file) => pattern.test(file)).length;
    if (count === 0 || isThere()) return [];
    for (const file of files) if (pattern.test(file)) told.add(file);
    return [`${count} tests need ${name}: ${command}`];
  });
  const rest = files.filter((file) => !told.has(file));
  const others = [...new Set(rest)].map((file) => `${file} (${rest.filter((one) => one === file).length})`);
  if (others.length > 0) lines.push(`skipped where they do not apply: ${others.join(', ')}`);
  return lines.length === 0 ? [] : ['', 'Not run on this machine:', ...lines.map((line) => `  ${line}`)];
}
