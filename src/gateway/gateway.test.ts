import { expect, test } from 'vitest';
import { scriptedEngine } from '../../testing/scripted-engine.ts';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { generateWhole } from '../agent/whole-reply.ts';
import { ConfigError, EngineError } from '../errors.ts';
import type { GenerateRequest } from '../inference/server.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { gateway } from './gateway.ts';

const tokenizer = {
  encode: (text: string) => Int32Array.from(text, (character) => character.charCodeAt(0)),
  decode: (ids: Int32Array) => String.fromCharCode(...ids),
};

const request = (trajectory: string, id = `${trajectory}/1/`, signal?: AbortSignal): GenerateRequest => ({
  id,
  trajectory,
  prompt: tokenizer.encode('hello'),
  sampling: {
    ...PLAIN_SAMPLING,
    maxTokens: 10,
    stopIds: [0],
    seed: 7,
  },
  ...(signal ? { signal } : {}),
});

test('new trajectories go where the fewest requests are in flight, and then stay there', async () => {
  const clock = virtualClock();
  const servers = [0, 1, 2].map(() =>
    scriptedEngine({ tokenizer, clock, firstTokenMs: 10, reply: () => 'ok' }),
  );
  const front = gateway(servers, { clock });
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  await Promise.all(names.map((name) => front.generate(request(name))));
  expect(servers.map(({ requests }) => requests.length)).toEqual([2, 2, 2]);
  for (let turn = 2; turn < 5; turn++) {
    await Promise.all(names.map((name) => front.generate(request(name, `${name}/${turn}/`))));
  }
  for (const name of names) {
    const homes = servers.filter(({ requests }) => requests.some(({ trajectory }) => trajectory === name));
    expect(homes).toHaveLength(1);
  }
});

test('a failed request is sent elsewhere with the same ids and seed, and its trajectory moves', async () => {
  const clock = virtualClock();
  const broken = scriptedEngine({
    tokenizer,
    clock,
    reply: () => {
      throw new Error('connection cut');
    },
  });
  const sound = scriptedEngine({ tokenizer, clock, reply: () => 'ok' });
  const front = gateway([broken, sound], { clock });
  const first = request('a');
  await front.generate(first);
  await front.generate(request('a', 'a/2/'));
  expect(broken.requests).toHaveLength(1);
  expect(sound.requests[0]).toBe(first);
  expect(sound.requests).toHaveLength(2);
  expect(clock.now()).toBe(250);
});

test('when no server answers, the tries are bounded and the error says so', async () => {
  const clock = virtualClock();
  const broken = scriptedEngine({
    tokenizer,
    clock,
    reply: () => {
      throw new Error('connection cut');
    },
  });
  const front = gateway([broken, broken], { clock, tries: 4 });
  await expect(front.generate(request('a'))).rejects.toThrow(EngineError);
  await expect(front.generate(request('a'))).rejects.toThrow(/a\/1\/ in 4 tries; last: connection cut/);
  expect(broken.requests).toHaveLength(8);
  expect(clock.now()).toBe(2 * (250 + 500 + 1000));
});

test('a cancelled request is not tried again', async () => {
  const clock = virtualClock();
  const stop = new AbortController();
  const broken = scriptedEngine({
    tokenizer,
    clock,
    reply: () => {
      stop.abort(new Error('user'));
      throw new Error('connection cut');
    },
  });
  const front = gateway([broken], { clock });
  await expect(front.generate(request('a', 'a/1/', stop.signal))).rejects.toThrow('user');
  expect(broken.requests).toHaveLength(1);
  expect(clock.pending).toBe(0);
});

test('the gateway is as able as its least able server', async () => {
  const servers = [1024, 512].map((contextTokens) =>
    scriptedEngine({ tokenizer, contextTokens, reply: () => 'ok' }),
  );
  expect((await gateway(servers).info()).contextTokens).toBe(512);
  expect(() => gateway([])).toThrow(ConfigError);
});

test('a server that is lost in the middle of a stream leaves what was told, and nothing is told twice', async () => {
  const clock = virtualClock();
  const whole = scriptedEngine({
    tokenizer,
    clock,
    reply: ({ text }) => 'streamed'.slice(text.length - 'hello'.length),
  });
  const breaking = {
    ...whole,
    generate: (asked: GenerateRequest) => {
      let told = 0;
      return whole.generate({
        ...asked,
        onTokens: (ids, logprobs) => {
          if (++told > 3) throw new EngineError('connection cut');
          asked.onTokens?.(ids, logprobs);
        },
      });
    },
  };
  const front = gateway([breaking, whole], { clock });
  await front.update({ kind: 'disk', version: 3, path: '' });
  let heard = '';
  const asked = {
    ...request('a'),
    signal: new AbortController().signal,
    onTokens: (ids: Int32Array) => {
      heard += tokenizer.decode(ids);
    },
  };
  const partial = await front.generate(asked);
  expect([tokenizer.decode(partial.ids), partial.finish, partial.versions]).toEqual([
    'str',
    'abort',
    [{ from: 0, version: 3 }],
  ]);
  expect(front.status().map(({ failures }) => failures)).toEqual([1, 0]);
  heard = '';
  const { ids, logprobs, finish } = await generateWhole(front, { ...asked, trajectory: 'b' }, clock);
  expect([tokenizer.decode(ids), heard, finish]).toEqual(['streamed\0', 'streamed\0', 'stop']);
  expect(logprobs).toHaveLength(9);
  expect(front.status().map(({ failures }) => failures > 1)).toEqual([true, false]);
});
