import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** One classic script: pages opened from a folder may not load modules. */
export default defineConfig({
  resolve: {
    // What reads files is never called here: weights and tokenizer come with the page.
    alias: { 'node:fs': here('src/no-files.ts'), 'node:path': here('src/no-files.ts') },
  },
  build: {
    copyPublicDir: false,
    lib: { entry: here('src/main.ts'), formats: ['iife'], name: 'play', fileName: () => 'play.js' },
  },
});
