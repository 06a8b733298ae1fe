#!/usr/bin/env node
import { existsSync, readFileSync } from 'node:fs';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(
    `rollcall needs Node 20.19 or newer; this is ${process.version}. Install a newer Node and try again.`,
  );
  process.exit(1);
}

if (process.argv[2] === '--version') {
  console.log(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version);
} else {
  await import('./register.js');
  const fromSource = existsSync(new URL('../src/cli/main.ts', import.meta.url));
  const { main } = await import(fromSource ? '../src/cli/main.ts' : '../dist/src/cli/main.js');
  await main(process.argv.slice(2));
}
