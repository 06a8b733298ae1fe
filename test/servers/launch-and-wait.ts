/** `node launch-and-wait.ts PORT`: starts a stand-in as a run would, says so, and waits to be killed. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startServers } from '../../src/inference/launch.ts';

const port = process.argv[2]!;
const url = `http://127.0.0.1:${port}`;
await startServers(
  [
    {
      program: process.execPath,
      arguments: [fileURLToPath(new URL('../stand-ins/sglang.mjs', import.meta.url))],
      environment: { PORT: port },
      url,
    },
  ],
  {
    startSeconds: 30,
    ready: () =>
      fetch(`${url}/model_info`).then(
        ({ ok }) => ok,
        () => false,
      ),
    logDirectory: mkdtempSync(join(tmpdir(), 'rollcall-launched-')),
    log: () => {},
  },
);
console.log(`listening ${port}`);
setInterval(() => {}, 1000);
