/** Starts one real server as a run does, says when it is ready, and waits to be killed: argument 1 is a LaunchCommand as JSON. */

import type { LaunchCommand } from '../../src/inference/engine.ts';
import { startServers } from '../../src/inference/launch.ts';

const [command, logDirectory] = process.argv.slice(2);
const parsed = JSON.parse(command!) as LaunchCommand;
const ready = (url: string) =>
  fetch(`${url}/v1/models`).then(
    ({ ok }) => ok,
    () => false,
  );
console.log('starting');
await startServers([parsed], { startSeconds: 600, ready, logDirectory: logDirectory!, log: () => {} });
console.log('ready');
setInterval(() => {}, 1000);
