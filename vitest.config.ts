import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: {
      'rollcall/testing': here('testing/index.ts'),
      'rollcall/langchain': here('src/agent/adapters/langchain.ts'),
      'rollcall/ai-sdk': here('src/agent/adapters/ai-sdk.ts'),
      rollcall: here('src/index.ts'),
    },
  },
  test: {
    include: ['{src,testing,test,examples}/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
  },
});
