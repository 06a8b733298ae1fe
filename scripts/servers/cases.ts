/** What a real server must do beyond the contract of `rollcall/testing`: one case a rule, as there. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import type { CheckedServer } from '../../src/inference/check-server.ts';
import type { GenerateRequest, SamplingParams } from '../../src/inference/server.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import { CaseList, type ContractCase } from '../../testing/contract.ts';
import type { SmallModels } from './models.ts';
import type { RealServer } from './real-server.ts';

export interface CaseOptions {
  readonly prompt: Int32Array;
  readonly models: SmallModels;
  readonly real: RealServer;
  readonly decode: (ids: Int32Array) => string;
}

let requests = 0;

function asker({ prompt }: CaseOptions) {
  return (
    server: CheckedServer,
    sampling: Partial<SamplingParams> = {},
    more: Partial<GenerateRequest> = {},
  ) => {
    const name = `case-${requests++}`;
    const given = { ...PLAIN_SAMPLING, maxTokens: 8, stopIds: [], seed: 7, ...sampling };
    return server.generate({ id: `${name}/`, trajectory: name, prompt, sampling: given, ...more });
  };
}

export function servingCases(
  open: () => Promise<CheckedServer>,
  options: CaseOptions,
): readonly ContractCase[] {
  const { models, real, decode } = options;
  const ask = asker(options);
  const list = new CaseList(open);

  list.add('a regular expression holds of the whole reply', async (server) => {
    const constraint = { kind: 'regex', source: '[0-9]{3}' } as const;
    const reply = await ask(server, { constraint });
    assert.match(decode(reply.ids), /^[0-9]{3}(<|$)/);
  });

  list.add(
    'a constraint that cannot be read is refused with what the server says, streamed or not',
    async (server) => {
      const constraint = { kind: 'regex', source: '[0-9' } as const;
      for (const more of [{}, { onTokens: () => {} }]) {
        await assert.rejects(ask(server, { constraint }, more), {
          reason: 'refused',
          message: /answered 400: /,
        });
      }
    },
  );

  if (!real.dies.ofWrongIds) {
    list.add('an id that the model does not have is refused, and the server lives', async (server) => {
      const wrong = ask(server, {}, { prompt: Int32Array.of(1, 999_999) });
      await assert.rejects(wrong, { reason: 'refused' });
      assert.ok((await ask(server)).ids.length > 0);
    });
  }

  list.add('penalties change what is sampled', async (server) => {
    const greedy = { temperature: 0, maxTokens: 12 };
    const plain = await ask(server, greedy);
    const punished = await ask(server, { ...greedy, repetitionPenalty: 2, presencePenalty: 2 });
    assert.notDeepEqual([...punished.ids], [...plain.ids]);
  });

  list.add('an aborted reply keeps what was sampled, streamed or not', async (server) => {
    const constraint = { kind: 'regex', source: '[0-9]{300,}' } as const; // so that it does not end early
    const long = (more: Partial<GenerateRequest>) =>
      ask(server, { maxTokens: 400, constraint, seed: 20 }, more);
    const abortAfter = async (ms: number) => {
      const stop = new AbortController();
      const running = long({ signal: stop.signal });
      await wait(ms);
      stop.abort(new Error('enough'));
      return running;
    };
    await long({}); // its prompt is cached from now on
    const began = performance.now();
    const whole = await long({});
    const ms = performance.now() - began;
    let kept = whole; // how fast a server is varies: in one of these moments the reply is in progress
    for (const share of [0.5, 0.3, 0.7, 0.4, 0.6, 0.2]) {
      if (kept.finish !== 'abort' || kept.ids.length === 0) kept = await abortAfter(share * ms);
    }
    const stop = new AbortController();
    const streamed = await long({ signal: stop.signal, onTokens: () => stop.abort(new Error('enough')) });
    for (const reply of [kept, streamed]) {
      assert.equal(reply.finish, 'abort');
      assert.ok(reply.ids.length > 0, 'an aborted reply has no tokens');
      assert.ok(reply.ids.length < 400);
      assert.equal(reply.logprobs.length, reply.ids.length);
    }
  });

  for (const mode of ['abort', 'wait', 'keep'] as const) {
    list.add(
      `a pause by ${mode} with a reply in progress, and a server that is ready while it is paused`,
      async (server) => {
        const running = ask(server, { maxTokens: 200 });
        await wait(700);
        await server.pause(mode);
        assert.equal(await server.ready(), true);
        const later = ask(server);
        await wait(300);
        await server.resume();
        const { finish, ids } = await running;
        assert.ok(ids.length > 0);
        if (mode !== 'abort') assert.notEqual(finish, 'abort');
        assert.ok((await later).ids.length > 0);
      },
    );
  }

  list.add(
    'new weights change log-probs, drop what was cached, and a reply across them says its versions',
    async (server) => {
      const score = async () => (await ask(server, { maxTokens: 1 }, { scorePrompt: true })).promptLogprobs!;
      const load = (version: number, path: string) => server.update({ kind: 'disk', version, path });
      await load(101, models.untied);
      const before = await score();
      const running = ask(server, { maxTokens: 300 });
      await wait(700);
      await server.pause('keep');
      await load(102, models.moved);
      await server.resume();
      const { versions, finish } = await running;
      if (finish !== 'stop')
        assert.deepEqual(
          versions.map(({ version }) => version),
          [101, 102],
        );
      const after = await score();
      assert.ok(Math.abs(after[5]! - before[5]!) > 1e-3, 'log-probs are as they were');
      await load(103, models.untied);
      const back = await score();
      for (let at = 1; at < back.length; at++)
        assert.ok(Math.abs(back[at]! - before[at]!) < 1e-4, `token ${at}`);
    },
  );

  const after = real.losesWeights ? 'the next update restores the weights' : 'the weights stay';
  list.add(`a folder that is not there is refused, and ${after}`, async (server) => {
    await server.update({ kind: 'disk', version: 104, path: models.untied });
    const greedy = { temperature: 0 };
    const before = await ask(server, greedy);
    const missing = server.update({ kind: 'disk', version: 105, path: '/nowhere' });
    await assert.rejects(missing, /did not load|answered/);
    if (real.losesWeights) await server.update({ kind: 'disk', version: 106, path: models.untied });
    assert.deepEqual([...(await ask(server, greedy)).ids], [...before.ids]);
  });

  list.add('a prompt that was sent before is found in the cache', async (server) => {
    const prompt = Int32Array.from({ length: 300 }, (_, at) => options.prompt[at % options.prompt.length]!);
    await ask(server, {}, { prompt });
    const { cachedTokens } = await ask(server, {}, { prompt });
    assert.ok((cachedTokens ?? 0) >= 128, `cached ${cachedTokens}`);
  });

  list.add('it tells its load', async (server) => {
    const load = await server.load!();
    assert.ok(load && load.kvTokens! > 0 && load.running >= 0, JSON.stringify(load));
  });
  return list.cases;
}

/** For a server that was started with LoRA. */
export function adapterCases(
  open: () => Promise<CheckedServer>,
  options: CaseOptions,
): readonly ContractCase[] {
  const ask = asker(options);
  const list = new CaseList(open);
  const adapter = (version: number) =>
    ({ kind: 'lora', version, name: `policy@${version}`, path: options.models.adapter }) as const;

  list.add(
    'an adapter changes the reply, its version is exact, and the second to last is unloaded',
    async (server) => {
      const greedy = { temperature: 0 };
      const plain = await ask(server, greedy);
      for (const version of [1, 2, 3]) await server.update(adapter(version));
      const adapted = await ask(server, greedy);
      assert.deepEqual(adapted.versions, [{ from: 0, version: 3 }]);
      assert.notDeepEqual([...adapted.logprobs], [...plain.logprobs]);
      assert.deepEqual((await ask(server, greedy, { adapter: 'policy@2' })).versions, [
        { from: 0, version: 2 },
      ]);
      if (!options.real.reloadsAdapters) {
        await assert.rejects(ask(server, greedy, { adapter: 'policy@1' }), /policy@1/);
      }
    },
  );

  list.add('an adapter that a run before left loaded is replaced', async (server) => {
    const before = await open();
    await before.update(adapter(7)); // never closed, as after SIGKILL
    await server.update(adapter(7));
    assert.deepEqual((await ask(server)).versions, [{ from: 0, version: 7 }]);
  });
  return list.cases;
}
