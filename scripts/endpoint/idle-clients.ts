/** Connections that say nothing, in a process of their own: `HOST PORT COUNT`. Prints `open` when all are, and ends with its input. */
import { once } from 'node:events';
import { connect } from 'node:net';

const [host, port, count] = process.argv.slice(2) as [string, string, string];
let failed = 0;
let closed = 0;
for (let made = 0; made < Number(count); made += 500) {
  await Promise.all(
    Array.from({ length: Math.min(500, Number(count) - made) }, async () => {
      const socket = connect(Number(port), host).resume();
      socket.on('close', () => closed++);
      await once(socket, 'connect').catch(() => failed++);
    }),
  );
}
console.log(JSON.stringify({ open: Number(count) - closed, failed }));
await once(process.stdin.resume(), 'end');
process.exit();
