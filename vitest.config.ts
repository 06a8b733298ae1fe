import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SkippedReporter } from './test/skipped-reporter.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: 'rollcall/testing', replacement: here('testing/index.ts') },
      { find: /^rollcall\/([\w-]+)$/, replacement: `${here('src/exports')}/$1.ts` },
      { find: /^rollcall$/, replacement: here('src/index.ts') },
    ],
  },
  test: {
    include: ['{src,testing,test,examples,recipes}/**/*.test.ts'],
    reporters: [
      'default',
      new SkippedReporter(),
      ...(process.env['TEST_REPORT']
        ? [['json', { outputFile: process.env['TEST_REPORT'] }] as [string, { outputFile: string }]]
        : []),
    ],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
  },
});
