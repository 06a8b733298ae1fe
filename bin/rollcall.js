#!/usr/bin/env node
import { existsSync } from 'node:fs';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(
    `rollcall needs Node 20.19 or newer; this is ${process.version}. Install a newer Node and try again.`,
  );
  process.exit(1);
}

await import('./register.js');
const fromSource = existsSync(new URL('../src/cli/main.ts', import.meta.url));
const { main } = await import(fromSource ? '../src/cli/main.ts' : '../dist/src/cli/main.js');
await main(process.argv.slice(2));
