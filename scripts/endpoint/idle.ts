/** Thousands of connections that say nothing keep nobody out, and leave nothing behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { agent, rollout } from '../../src/index.ts';
import { byteModel, scriptedEngine } from '../../testing/index.ts';
import { type Aim, holds } from '../verdict.ts';

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;

export async function proveIdle(count: number): Promise<{ aims: Aim[]; figures: object }> {
  const { tokenizer, format } = byteModel();
  let seen = { open: 0, failed: count };
  let held = 0;
  let milliseconds = Number.NaN;
  let status = 0;
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: agent(async ({ endpoint }) => {
      const { openai, apiKey } = await endpoint();
      const { hostname, port } = new URL(openai);
      const words = [path('idle-clients.ts'), hostname, port, String(count)];
      const idle = spawn(process.execPath, ['--import', path('../../bin/register.js'), ...words], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      const [line] = (await once(createInterface({ input: idle.stdout }), 'line')) as [string];
      seen = JSON.parse(line) as typeof seen;
      while (sockets() < count && held !== sockets()) {
        held = sockets();
        await wait(200);
      }
      held = sockets();
      const asked = performance.now();
      const response = await fetch(`${openai}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}` },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'go' }] }),
      });
      await response.text();
      milliseconds = performance.now() - asked;
      status = response.status;
      idle.stdin.end();
      await once(idle, 'exit');
    }),
    server: scriptedEngine({ tokenizer, reply: () => 'ok' }),
    format,
    rewards: [],
    seed: 1,
  });
  for (let tries = 0; sockets() > 1 && tries < 50; tries++) await wait(100); // fetch keeps its own a while
  return {
    aims: [
      holds(`${count} idle connections are held`, seen.open === count && held >= count, { ...seen, held }),
      holds(
        'a request beside them is answered, and its attempt ends well',
        status === 200 && group!.attempts[0]!.trajectory.end.kind === 'completed',
        status,
      ),
      holds('they are gone at the end', sockets() <= 1, sockets()),
    ],
    figures: { count, held, milliseconds },
  };
}
