import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { HttpClient } from './client.ts';
import type { Connection, Opening } from './connection.ts';
import { Connections, type Rank } from './connections.ts';
import type { HttpReply } from './reply-reader.ts';

const AT_ONCE = 64;
const NEW_AT_ONCE = 512;

/** A connection without a socket: the test says when it opens, is heard, fails, or is of no use. */
class FakeConnection {
  readonly opening: Opening;
  state: 'opening' | 'open' | 'broken' = 'opening';
  isHeard = false;
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
  hear() {
    if (this.isHeard) return;
    this.isHeard = true;
    this.opening.onHeard();
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
  readonly rank: Rank;
  heard = 0;
  holds: FakeConnection | undefined;
  error: Error | undefined;
  constructor(rank: Rank = 2) {
    this.rank = rank;
  }
  connected(connection: Connection) {
    this.heard++;
    this.holds = connection as unknown as FakeConnection;
  }
  failed(why: Error) {
    this.heard++;
    this.error = why;
  }
}

const STEPS = ['take', 'take', 'take', 'open', 'open', 'hear', 'fail', 'give back', 'drop', 'leave'] as const;

test('whatever happens, each who asks gets one connection or one failure, in order, and few are new at once', () => {
  const step = fc.record({ what: fc.constantFrom(...STEPS), count: fc.nat(250), pick: fc.nat() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const { made, connections } = fakeConnections();
      const takers: FakeTaker[] = [];
      const left = new Set<FakeTaker>();
      const opening = () => made.filter(({ state }) => state === 'opening');
      const opened: FakeConnection[] = [];
      /** Opened after all that were heard. */
      const unheard = () =>
        opened
          .slice(1 + opened.findLastIndex(({ isHeard }) => isHeard))
          .filter(({ state }) => state === 'open');
      const open = (connection: FakeConnection | undefined) => {
        if (connection) opened.push(connection);
        connection?.settle();
      };
      const act = (what: (typeof STEPS)[number], pick: number) => {
        const picked = <V>(from: readonly V[]) => from[pick % Math.max(1, from.length)];
        const areWaiting = () =>
          takers
            .filter((taker) => taker.heard === 0 && !left.has(taker))
            .sort((one, other) => one.rank - other.rank);
        const waiting = areWaiting();
        const leaves = picked(waiting);
        const holder = picked(takers.filter(({ holds }) => holds?.state === 'open'));
        const connection = holder?.holds as unknown as Connection;
        if (what === 'take') connections.take(takers[takers.push(new FakeTaker((pick % 3) as Rank)) - 1]!);
        else if (what === 'open') open(picked(opening()));
        else if (what === 'hear') holder?.holds?.hear();
        else if (what === 'fail') picked(opening())?.settle(new Error('down'));
        else if (what === 'leave' && leaves) {
          left.add(leaves);
          connections.leave(leaves);
        } else if (holder && (what === 'drop' || what === 'give back')) {
          holder.holds = undefined;
          if (what === 'drop') return connections.drop(connection, new Error('cut'));
          (connection as unknown as FakeConnection).hear();
          const [next] = areWaiting();
          connections.giveBack(connection, 1000);
          if (next) expect(next.holds).toBe(connection);
        }
      };
      for (const { what, count, pick } of steps) {
        for (let at = 0; at < count; at++) {
          act(what, pick + at);
          expect(opening().length).toBeLessThanOrEqual(AT_ONCE);
          expect(opening().length + unheard().length).toBeLessThanOrEqual(NEW_AT_ONCE);
        }
      }
      // Everyone who waits is served once what is opening has opened, and the last of it was heard.
      for (let rest = opening(); rest.length > 0; rest = opening()) {
        for (const one of rest) open(one);
        unheard().at(-1)?.hear();
      }
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

test('few connections are unheard of at once; a word on one counts for those that opened before it', () => {
  const { made, connections } = fakeConnections();
  const takers = Array.from({ length: 1200 }, () => new FakeTaker());
  const openAll = () => {
    for (const one of made) if (one.state === 'opening') one.settle();
  };
  for (const taker of takers) connections.take(taker);
  openAll();
  expect(made.length).toBe(NEW_AT_ONCE);
  connections.drop(made[0] as unknown as Connection, new Error('cancelled'));
  openAll();
  expect(made.length).toBe(NEW_AT_ONCE + 1);
  made[300]!.hear();
  openAll();
  expect(made.length).toBe(NEW_AT_ONCE + 1 + 300);
  made[100]!.hear();
  openAll();
  expect(made.length).toBe(NEW_AT_ONCE + 1 + 300);
  connections.close();
});

/** `/together/N` is answered once N requests are there, with the number of those that came before. */
const SLOW = `
  const held = [];
  const server = require('node:http').createServer(({ url }, response) => {
    if (!url.startsWith('/together/')) return setTimeout(() => response.end('{"ok":true}'), url === '/slow' ? 20 : 0);
    held.push(response);
    if (held.length === Number(url.split('/').pop())) held.forEach((one, before) => one.end(String(before)));
  });
  const backlog = Number(process.argv[1]);
  server.listen({ port: 0, host: '127.0.0.1', backlog }, () => console.log(server.address().port));`;
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

async function slowServer(backlog: number, script = 'exec "$0" "$@"') {
  const words = ['-c', script, process.execPath, '-e', SLOW, String(backlog)];
  const child = spawn('bash', words, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  const [port] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { child, port: Number(port) };
}

/** Connections to a port that are in a state: 01 is open, 02 is being opened. */
function inState(port: number, state: '01' | '02'): number {
  const target = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')} ${state} `;
  return readFileSync('/proc/net/tcp', 'utf8').split(target).length - 1;
}

test('a server with few open files gets every request by the connections that it can hold, and none fails', async () => {
  const { port } = await slowServer(32, 'ulimit -n 60; exec "$0" "$@"');
  const http = new HttpClient(`http://127.0.0.1:${port}`);
  const replies = await Promise.all(Array.from({ length: 300 }, () => http.json('/slow', { body: {} })));
  expect(replies).toEqual(replies.map(() => ({ ok: true })));
  await http.close();
});

test.skipIf(!existsSync('/proc/net/tcp'))(
  'a server that accepts nothing for a while gets every request, and few at once ask to be accepted',
  async () => {
    const { child, port } = await slowServer(32);
    const http = new HttpClient(`http://127.0.0.1:${port}`, { connectMs: 400 });
    await http.json('/first');
    child.kill('SIGSTOP');
    const replies = Promise.allSettled(Array.from({ length: 300 }, () => http.json('/a', { body: {} })));
    await wait(600); // longer than connectMs; what the kernel drops is asked again after 1 s
    const opening = inState(port, '02');
    child.kill('SIGCONT');
    expect(opening).toBeGreaterThan(0);
    expect(opening).toBeLessThanOrEqual(AT_ONCE);
    for (const one of await replies) expect(one).toEqual({ status: 'fulfilled', value: { ok: true } });
    await http.close();
  },
);

test.skipIf(!existsSync('/proc/net/tcp'))(
  'few connections wait for a busy server to accept them, all requests are there before the first reply, and calls go first',
  async () => {
    const { child, port } = await slowServer(2048);
    const http = new HttpClient(`http://127.0.0.1:${port}`);
    await http.json('/first');
    child.kill('SIGSTOP');
    const path = '/together/1200';
    const read = (reply: HttpReply) => Number(http.accept(path, reply));
    const ask = (rank: Rank) => http.start(path, () => ({ body: {} }), read, { rank }).reply;
    const begin = Array.from({ length: 1000 }, () => ask(2));
    const goOn = Array.from({ length: 199 }, () => ask(1));
    const call = http.json<number>(path, { body: {} });
    const most = 1 + NEW_AT_ONCE; // one was accepted before
    await expect.poll(() => inState(port, '01'), { timeout: 10_000 }).toBeGreaterThanOrEqual(most);
    await wait(100);
    const open = inState(port, '01');
    child.kill('SIGCONT');
    const before = { begin: await Promise.all(begin), goOn: await Promise.all(goOn), call: await call };
    expect(open).toBe(most);
    // Those that had a connection when it stopped, then the call, then trajectories that go on; 64 are opened side by side.
    expect(before.call).toBeLessThanOrEqual(most + AT_ONCE);
    expect(Math.max(...before.goOn)).toBeLessThanOrEqual(most + 200 + AT_ONCE);
    await http.close();
  },
);
