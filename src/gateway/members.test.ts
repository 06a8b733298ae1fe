import { expect, test } from 'vitest';
import { scriptedEngine } from '../../testing/scripted-engine.ts';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { EngineError } from '../errors.ts';
import type { GenerateRequest, InferenceServer } from '../inference/server.ts';
import { sleep } from '../lib/clock.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { gateway } from './gateway.ts';
import { createMember } from './member.ts';
import { route } from './route.ts';

const tokenizer = {
  encode: (text: string) => Int32Array.from(text, (character) => character.charCodeAt(0)),
  decode: (ids: Int32Array) => String.fromCharCode(...ids),
};
const request = (trajectory: string): GenerateRequest => ({
  id: `${trajectory}/1/`,
  trajectory,
  prompt: tokenizer.encode('hello'),
  sampling: {
    ...PLAIN_SAMPLING,
    maxTokens: 10,
    stopIds: [0],
    seed: 7,
  },
});
const WEIGHTS = (version: number) => ({ kind: 'disk', version, path: `/weights/${version}` }) as const;

/** A scripted server that can be switched off and started anew, as a process is. */
function mortal() {
  const engine = scriptedEngine({ tokenizer, reply: () => 'ok' });
  let alive = true;
  const updates: number[] = [];
  const server: InferenceServer = {
    ...engine,
    ready: async () => alive,
    generate: (given) => (alive ? engine.generate(given) : Promise.reject(new EngineError('ECONNREFUSED'))),
    update: async (weights) => {
      if (!alive) throw new EngineError('ECONNREFUSED');
      updates.push(weights.version);
      await engine.update(weights);
    },
  };
  return {
    server,
    engine,
    updates,
    kill: () => {
      alive = false;
    },
    restart: () => {
      alive = true;
      void engine.update(WEIGHTS(0));
    },
  };
}

test('a server that is gone gets nothing until it is back with the newest weights', async () => {
  const [first, second] = [mortal(), mortal()];
  const log: string[] = [];
  const front = gateway([first.server, second.server], {
    clock: virtualClock(),
    log: (line) => log.push(line),
  });
  await front.update(WEIGHTS(1));
  second.kill();
  for (const name of ['a', 'b', 'c', 'd']) await front.generate(request(name));
  await front.update(WEIGHTS(2));
  expect(first.updates).toEqual([1, 2]);
  expect(second.updates).toEqual([1]);
  second.restart();
  const before = second.engine.requests.length;
  for (const name of ['e', 'f']) await front.generate(request(name));
  expect(second.engine.requests.length).toBe(before); // it has version 0
  await front.update(WEIGHTS(3));
  expect(second.updates).toEqual([1, 3]);
  expect(front.status().map(({ down, version, inFlight }) => [down, version, inFlight])).toEqual([
    [undefined, 3, 0],
    [undefined, 3, 0],
  ]);
});

test('a server started anew between two requests is found by the version of its reply', async () => {
  const [first, second] = [mortal(), mortal()];
  const front = gateway([first.server, second.server], { clock: virtualClock(), tries: 3 });
  await front.update(WEIGHTS(5));
  first.kill();
  first.restart();
  const replies = await Promise.all(['a', 'b', 'c'].map((name) => front.generate(request(name))));
  for (const { versions } of replies) expect(versions).toEqual([{ from: 0, version: 5 }]);
  expect(front.status()[0]!.down).toContain('answered with version 0 of the weights; it was sent 5');
});

test('when no server takes the weights the run stops with every reason', async () => {
  const only = mortal();
  const front = gateway([only.server], { clock: virtualClock() });
  only.kill();
  await expect(front.update(WEIGHTS(1))).rejects.toThrow(/no server took version 1.*server 0: ECONNREFUSED/);
});

test('servers are added with the newest weights, and removed when their last request has ended', async () => {
  const [first, second] = [mortal(), mortal()];
  const front = gateway([first.server], { clock: virtualClock() });
  await front.update(WEIGHTS(4));
  await front.add(second.server);
  expect(second.updates).toEqual([4]);
  expect(() => front.remove('nobody')).toThrow(/no server nobody; there are server 0, server 1/);
  front.remove('server 0');
  await front.generate(request('a'));
  expect(second.engine.requests).toHaveLength(1);
  expect(front.status().map(({ name }) => name)).toEqual(['server 1']);
  expect(() => front.remove('server 1')).toThrow(/last server/);
});

test('a request that hangs is tried elsewhere after its time', async () => {
  const clock = virtualClock();
  const slow = scriptedEngine({ tokenizer, clock, firstTokenMs: 60_000, reply: () => 'ok' });
  const quick = scriptedEngine({ tokenizer, clock, reply: () => 'ok' });
  const front = gateway([slow, quick], { clock, secondsPerRequest: 5 });
  expect((await front.generate(request('a'))).finish).toBe('stop');
  expect(clock.now()).toBe(5250);
  expect(quick.requests).toHaveLength(1);
});

test('stickiness holds up to the margin, and stable placement moves only what its server held', () => {
  const members = [0, 1, 2].map((place) => createMember(mortal().server, place));
  const [home] = members;
  const rules = { imbalance: 4, placement: 'least-busy' } as const;
  home!.inFlight = 3;
  expect(route(members, { trajectory: 'a', home, failed: [] }, rules)).toBe(home);
  home!.inFlight = 4;
  expect(route(members, { trajectory: 'a', home, failed: [] }, rules)).toBe(members[1]);
  const stable = { imbalance: Number.POSITIVE_INFINITY, placement: 'stable' } as const;
  const names = Array.from({ length: 300 }, (_, at) => `trajectory-${at}`);
  const place = () =>
    names.map((trajectory) => route(members, { trajectory, home: undefined, failed: [] }, stable));
  const before = place();
  for (const member of members) {
    expect(before.filter((one) => one === member).length).toBeGreaterThan(60);
  }
  members[2]!.down = 'gone';
  place().forEach((member, at) => {
    if (before[at] !== members[2]) expect(member).toBe(before[at]);
  });
});

test('a trajectory that fails too often over its turns fails, and what it cost is forgotten when it ends', async () => {
  let calls = 0;
  const engine = scriptedEngine({ tokenizer, reply: () => 'ok' });
  const moody: InferenceServer = {
    ...engine,
    generate: (given) =>
      calls++ % 2 === 0 ? Promise.reject(new EngineError('busy')) : engine.generate(given),
  };
  const front = gateway([moody], { clock: virtualClock(), failuresPerTrajectory: 3 });
  await front.generate(request('a'));
  await front.generate(request('a'));
  await expect(front.generate(request('a'))).rejects.toThrow(
    /a\/1\/ in 1 tries, 3 of its trajectory; last: busy/,
  );
  calls = 0;
  await front.generate(request('b'));
  front.ended('a');
  await front.generate(request('a'));
});

test('an update that fails leaves its server running, so that no request waits for it', async () => {
  const calls: string[] = [];
  const [broken, sound] = [mortal(), mortal()];
  const server: InferenceServer = {
    ...broken.server,
    pause: async () => void calls.push('pause'),
    update: async () => {
      calls.push('update');
      throw new EngineError('no such folder');
    },
    resume: async () => void calls.push('resume'),
  };
  const front = gateway([server, sound.server], { clock: virtualClock(), whileUpdating: 'wait' });
  await front.update(WEIGHTS(1));
  expect(calls).toEqual(['pause', 'update', 'resume']);
  expect(front.status().map(({ down }) => down)).toEqual(['no such folder', undefined]);
});

test('when all servers are gone, those that wait look together for one that is back', async () => {
  const only = mortal();
  const clock = virtualClock();
  const front = gateway([only.server], { clock, tries: 6 });
  await front.update(WEIGHTS(1));
  only.kill();
  clock.timer(1000, () => only.restart());
  const names = Array.from({ length: 50 }, (_, at) => `t${at}`);
  const replies = await Promise.all(names.map((name) => front.generate(request(name))));
  expect(replies.map(({ versions }) => versions)).toEqual(names.map(() => [{ from: 0, version: 1 }]));
  expect(only.updates).toEqual([1, 1]);
});

test('a request that waits for new weights has its time to be answered after them', async () => {
  const clock = virtualClock();
  const engine = scriptedEngine({ tokenizer, clock, firstTokenMs: 3000, reply: () => 'ok' });
  const server: InferenceServer = {
    ...engine,
    update: async (weights) => {
      await sleep(clock, 60_000);
      await engine.update(weights);
    },
  };
  const front = gateway([server], { clock, secondsPerRequest: 5, whileUpdating: 'wait', tries: 1 });
  const updating = front.update(WEIGHTS(1));
  const reply = await front.generate(request('a'));
  expect(reply.versions).toEqual([{ from: 0, version: 1 }]);
  expect(clock.now()).toBe(63_000);
  await updating;
  expect(front.status()[0]).not.toHaveProperty('updating');
});

test('a server that is added while newer weights are sent has them before it answers', async () => {
  const [first, second] = [mortal(), mortal()];
  const front = gateway([first.server]);
  await front.update(WEIGHTS(1));
  let load = () => {};
  const slow: InferenceServer = {
    ...second.server,
    update: async (weights) => {
      if (weights.version === 1) await new Promise<void>((done) => (load = done));
      await second.server.update(weights);
    },
  };
  const adding = front.add(slow);
  await new Promise((done) => setImmediate(done));
  await front.update(WEIGHTS(2));
  load();
  await adding;
  expect(second.updates).toEqual([1, 2]);
  expect(front.status().map(({ version }) => version)).toEqual([2, 2]);
});

test('weights for one server go one after another', async () => {
  const { server, updates } = mortal();
  let running = 0;
  let most = 0;
  const front = gateway([
    {
      ...server,
      update: async (weights) => {
        most = Math.max(most, ++running);
        await new Promise((done) => setTimeout(done, 5));
        await server.update(weights);
        running--;
      },
    },
  ]);
  await Promise.all([front.update(WEIGHTS(1)), front.update(WEIGHTS(2))]);
  expect({ most, updates }).toEqual({ most: 1, updates: [1, 2] });
});

test('the only server dies: requests and weights wait for its restart, and then go on with the newest', async () => {
  const clock = virtualClock();
  const only = mortal();
  const log: string[] = [];
  const front = gateway([only.server], { clock, restartSeconds: 300, log: (line) => log.push(line) });
  await front.update(WEIGHTS(1));
  only.kill();
  clock.timer(40_000, () => only.restart());
  const replies = Promise.all(['a', 'b'].map((name) => front.generate(request(name))));
  for (const { versions } of await replies) expect(versions).toEqual([{ from: 0, version: 1 }]);
  expect(only.updates).toEqual([1, 1]);
  expect(log).toEqual([
    'server 0 is out: ECONNREFUSED',
    'no server answers; one that is back within 300 s gets the newest weights',
    'server 0 is back, with version 1',
  ]);

  only.kill();
  clock.timer(40_000, () => only.restart());
  await front.update(WEIGHTS(2));
  expect(only.updates).toEqual([1, 1, 2]);
});

test('a server that does not come back in the time a start may take is given up', async () => {
  const clock = virtualClock();
  const only = mortal();
  const front = gateway([only.server], { clock, restartSeconds: 30 });
  only.kill();
  await expect(front.generate(request('a'))).rejects.toThrow(/no server answered request a.*ECONNREFUSED/);
  expect(clock.now()).toBeGreaterThan(30_000);
  expect(clock.now()).toBeLessThan(45_000);
});

test('a run that is stopped does not wait for a server to come back', async () => {
  const clock = virtualClock();
  const only = mortal();
  const stop = new AbortController();
  const front = gateway([only.server], { clock, restartSeconds: 300, signal: stop.signal });
  only.kill();
  clock.timer(5000, () => stop.abort(new Error('interrupted')));
  await expect(front.update(WEIGHTS(1))).rejects.toThrow('interrupted');
});

test('a full queue is waited for without counting as a failure, and a request that is wrong is not tried again', async () => {
  const clock = virtualClock();
  let asked = 0;
  const full = scriptedEngine({ tokenizer, clock, reply: () => 'ok' });
  const server: InferenceServer = {
    ...full,
    generate: (given) => {
      if (given.trajectory === 'wrong') {
        asked++;
        return Promise.reject(new EngineError('answered 400: Token id 996', { reason: 'refused' }));
      }
      if (clock.now() < 20_000) {
        return Promise.reject(new EngineError('answered 503: queue is full', { reason: 'busy' }));
      }
      return full.generate(given);
    },
  };
  const front = gateway([server], { clock });
  expect((await front.generate(request('a'))).ids.length).toBeGreaterThan(0);
  expect(front.status()[0]).toMatchObject({ failures: 0, down: undefined });
  await expect(front.generate(request('wrong'))).rejects.toThrow('answered 400: Token id 996');
  expect(asked).toBe(1);
});

test('an adapter is loaded without a pause, weights with one', async () => {
  const engine = scriptedEngine({ tokenizer, reply: () => 'ok' });
  const calls: string[] = [];
  const server: InferenceServer = {
    ...engine,
    pause: async (mode) => void calls.push(`pause ${mode}`),
    resume: async () => void calls.push('resume'),
    update: async ({ kind }) => void calls.push(kind),
  };
  const front = gateway([server], { clock: virtualClock(), whileUpdating: 'abort' });
  await front.update({ kind: 'lora', version: 1, name: 'policy@1', path: '/adapters/1' });
  await front.update(WEIGHTS(2));
  expect(calls).toEqual(['lora', 'pause abort', 'disk', 'resume']);
});
