import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** One script and one style sheet, so that `rollcall report` can put the whole page into one file. */
export default defineConfig({
  plugins: [react()],
  base: './',
  build: {
    assetsInlineLimit: 100_000,
    cssCodeSplit: false,
    modulePreload: false,
    rolldownOptions: {
      output: {
        codeSplitting: false,
        entryFileNames: 'page.js',
        assetFileNames: 'page.[ext]',
      },
    },
  },
});
