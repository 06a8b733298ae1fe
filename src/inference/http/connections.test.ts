import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { HttpClient } from './client.ts';
import type { Connection, Opening } from './connection.ts';
import { Connections } from './connections.ts';

const AT_ONCE = 64;

/** A connection without a socket: the test says when it opens, fails, or is of no use. */
class FakeConnection {
  readonly opening: Opening;
  state: 'opening' | 'open' | 'broken' = 'opening';
  constructor(opening: Opening) {
    this.opening = opening;
  }
  get isUsable() {
    return this.state === 'open';
  }
  settle(failure?: Error) {
    this.state = failure ? 'broken' : 'open';
    this.opening.onOpened(failure);
  }
  destroy() {
    const wasOpening = this.state === 'opening';
    this.state = 'broken';
    if (wasOpening) this.opening.onOpened();
  }
  rest() {}
}

function fakeConnections() {
  const made: FakeConnection[] = [];
  const connect = (opening: Opening) => {
    made.push(new FakeConnection(opening));
    return made.at(-1) as unknown as Connection;
  };
  return { made, connections: new Connections(connect, 1000) };
}

class FakeTaker {
  heard = 0;
  holds: FakeConnection | undefined;
  error: Error | undefined;
  connected(connection: Connection) {
    this.heard++;
    this.holds = connection as unknown as FakeConnection;
  }
  failed(why: Error) {
    this.heard++;
    this.error = why;
  }
}

const STEPS = ['take', 'take', 'take', 'open', 'fail', 'give back', 'drop', 'leave'] as const;

test('whatever happens, each who asks gets one connection or one failure, in order, and few are opened at once', () => {
  const step = fc.record({ what: fc.constantFrom(...STEPS), count: fc.nat(150), pick: fc.nat() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const { made, connections } = fakeConnections();
      const takers: FakeTaker[] = [];
      const left = new Set<FakeTaker>();
      const opening = () => made.filter(({ state }) => state === 'opening');
      const act = (what: (typeof STEPS)[number], pick: number) => {
        const picked = <V>(from: readonly V[]) => from[pick % Math.max(1, from.length)];
        const waiting = takers.filter((taker) => taker.heard === 0 && !left.has(taker));
        const leaves = picked(waiting);
        const holder = picked(takers.filter(({ holds }) => holds?.state === 'open'));
        const connection = holder?.holds as unknown as Connection;
        if (what === 'take') connections.take(takers[takers.push(new FakeTaker()) - 1]!);
        else if (what === 'open') picked(opening())?.settle();
        else if (what === 'fail') picked(opening())?.settle(new Error('down'));
        else if (what === 'leave' && leaves) {
          left.add(leaves);
          connections.leave(leaves);
        } else if (holder && (what === 'drop' || what === 'give back')) {
          holder.holds = undefined;
          if (what === 'drop') connections.drop(connection, new Error('cut'));
          else connections.giveBack(connection, 1000);
          if (what === 'give back' && waiting[0]) expect(waiting[0].holds).toBe(connection);
        }
      };
      for (const { what, count, pick } of steps) {
        for (let at = 0; at < count; at++) {
          act(what, pick);
          expect(opening().length).toBeLessThanOrEqual(AT_ONCE);
        }
      }
      // Everyone who waits is served once what is opening has opened.
      for (let open = opening(); open.length > 0; open = opening()) for (const one of open) one.settle();
      for (const taker of takers) expect(taker.heard).toBe(left.has(taker) ? 0 : 1);
      connections.close();
    }),
    { numRuns: 30 },
  );
});

test('where no connection is open and one cannot be opened, all who wait fail; where one is open, they go on', () => {
  const ask = (connections: Connections) =>
    Array.from({ length: 3 * AT_ONCE }, () => {
      const taker = new FakeTaker();
      connections.take(taker);
      return taker;
    });
  const down = new Error('down');
  const alone = fakeConnections();
  const lost = ask(alone.connections);
  alone.made[0]!.settle(down);
  for (const taker of lost.slice(AT_ONCE)) expect(taker.error).toBe(down);
  expect(alone.made.length).toBe(AT_ONCE);

  const { made, connections } = fakeConnections();
  const takers = ask(connections);
  made[0]!.settle();
  made[1]!.settle(down);
  expect(made.length).toBe(AT_ONCE + 2);
  expect(takers[AT_ONCE + 2]!.heard).toBe(0);
  expect(made.at(0)!.opening.openMs).toBe(1000);
  expect(made.at(-1)!.opening.openMs).toBe(6000); // the server is there, and slow to accept

  const refused = new FakeTaker();
  expect(connections.takeFreed(refused)).toBe(true); // made[0] is in use
  connections.giveBack(made[0] as unknown as Connection, 1000);
  expect(refused.holds).toBe(made[0]);
  const last = new FakeTaker();
  expect(connections.takeFreed(last)).toBe(true);
  connections.drop(made[0] as unknown as Connection, down); // the only open one: nothing can be freed
  expect(connections.takeFreed(new FakeTaker())).toBe(false);
  connections.leave(last);

  made[2]!.destroy(); // cancelled: says nothing about the server
  expect(made.length).toBe(AT_ONCE + 3);
});

const SLOW = `
  const server = require('node:http').createServer((request, response) => setTimeout(() => response.end('{"ok":true}'), request.url === '/slow' ? 20 : 0));
  server.listen({ port: 0, host: '127.0.0.1', backlog: 32 }, () => console.log(server.address().port));`;
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

async function slowServer(script = 'exec "$0" "$@"') {
  const words = ['-c', script, process.execPath, '-e', SLOW];
  const child = spawn('bash', words, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  const [port] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { child, port: Number(port) };
}

/** Connections to a port that the kernel is still opening. */
function beingOpened(port: number): number {
  const target = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')} 02`; // SYN_SENT
  return readFileSync('/proc/net/tcp', 'utf8').split(target).length - 1;
}

test('a server with few open files gets every request by the connections that it can hold, and none fails', async () => {
  const { port } = await slowServer('ulimit -n 60; exec "$0" "$@"');
  const http = new HttpClient(`http://127.0.0.1:${port}`);
  const replies = await Promise.all(Array.from({ length: 300 }, () => http.json('/slow', { body: {} })));
  expect(replies).toEqual(replies.map(() => ({ ok: true })));
  await http.close();
});

test.skipIf(!existsSync('/proc/net/tcp'))(
  'a server that accepts nothing for a while gets every request, and few at once ask to be accepted',
  async () => {
    const { child, port } = await slowServer();
    const http = new HttpClient(`http://127.0.0.1:${port}`, { connectMs: 400 });
    await http.json('/first');
    child.kill('SIGSTOP');
    const replies = Promise.allSettled(Array.from({ length: 300 }, () => http.json('/a', { body: {} })));
    await wait(600); // longer than connectMs; what the kernel drops is asked again after 1 s
    const opening = beingOpened(port);
    child.kill('SIGCONT');
    expect(opening).toBeGreaterThan(0);
    expect(opening).toBeLessThanOrEqual(AT_ONCE);
    for (const one of await replies) expect(one).toEqual({ status: 'fulfilled', value: { ok: true } });
    await http.close();
  },
);
