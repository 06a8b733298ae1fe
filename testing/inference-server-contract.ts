import assert from 'node:assert/strict';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  SamplingParams,
  WeightUpdate,
} from '../src/inference/server.ts';
import { PLAIN_SAMPLING } from '../src/lib/plain-sampling.ts';
import { CaseList, type ContractCase } from './contract.ts';

/** What a server is tested with: a prompt, other weights, a tolerance. */
export interface InferenceServerContractOptions {
  /** Token ids that the model can read, a few of them. */
  readonly prompt?: readonly number[];
  /** Other weights, of a kind that the server takes; without it updates are not tested. */
  readonly update?: (version: number) => WeightUpdate | Promise<WeightUpdate>;
  /** How far log-probs of one token may differ between sampling it and scoring it; bfloat16 needs 0.08. */
  readonly tolerance?: number;
}

const REPLY_TOKENS = 12;
/** How long a paused server is watched for a reply that it must not give. */
const WATCH_MS = 100;

/**
 * What every inference server keeps, as cases that a test runner calls. Abilities that the server states (`can`) are
 * tested where it has them, so the server is opened once to be asked.
 */
export async function inferenceServerContract(
  open: () => Promise<InferenceServer>,
  options: InferenceServerContractOptions = {},
): Promise<readonly ContractCase[]> {
  const { prompt = [1, 2, 3, 4], tolerance = 1e-3, update } = options;
  const asked = await open();
  const { can } = await asked.info();
  await asked.close();
  const list = new CaseList(open);
  let requests = 0;
  const request = (more: Partial<GenerateRequest> = {}, sampling: Partial<SamplingParams> = {}) => {
    const name = `contract-${requests++}`;
    const given = { ...PLAIN_SAMPLING, maxTokens: REPLY_TOKENS, stopIds: [], seed: 7, ...sampling };
    const ids = Int32Array.from(prompt);
    return { id: `${name}/`, trajectory: name, prompt: ids, sampling: given, ...more };
  };

  list.add('it is ready, and states its model, context and version', async (server) => {
    assert.equal(await server.ready(), true);
    const { engine, contextTokens, version, vocabulary } = await server.info();
    assert.ok(engine.length > 0, 'engine is empty');
    assert.ok(contextTokens > prompt.length, `contextTokens is ${contextTokens}`);
    assert.ok(Number.isInteger(version) && version >= 0, `version is ${version}`);
    assert.ok(Number.isInteger(vocabulary) && vocabulary >= 0, `vocabulary is ${vocabulary}`);
  });

  list.add('a reply has a log-prob for each token and says which version sampled it', async (server) => {
    const { version } = await server.info();
    const reply = await server.generate(request());
    checkReply(reply);
    assert.ok(reply.ids.length > 0 && reply.ids.length <= REPLY_TOKENS, `${reply.ids.length} tokens`);
    assert.notEqual(reply.finish, 'abort');
    if (reply.finish === 'length') assert.equal(reply.ids.length, REPLY_TOKENS);
    assert.deepEqual(reply.versions, [{ from: 0, version }]);
    assert.ok(reply.promptTokens >= prompt.length, `promptTokens is ${reply.promptTokens}`);
  });

  list.add('requests at once each get their own reply', async (server) => {
    const replies = await Promise.all(
      [3, 5, 8].map((maxTokens) => server.generate(request({}, { maxTokens }))),
    );
    replies.forEach(checkReply);
    for (const [at, most] of [3, 5, 8].entries()) assert.ok(replies[at]!.ids.length <= most);
  });

  list.add('a stop token ends the reply and is its last token', async (server) => {
    const whole = await server.generate(request({}, { temperature: 0 }));
    const stop = whole.ids[0]!;
    const cut = await server.generate(request({}, { temperature: 0, stopIds: [stop] }));
    checkReply(cut);
    assert.deepEqual([...cut.ids], [stop]);
    assert.equal(cut.finish, 'stop');
  });

  list.add('tokens that are streamed are those of the reply', async (server) => {
    const streamed: number[] = [];
    const logprobs: number[] = [];
    const onTokens = (ids: Int32Array, values: Float32Array) => {
      streamed.push(...ids);
      logprobs.push(...values);
    };
    const reply = await server.generate(request({ onTokens }));
    assert.deepEqual(streamed, [...reply.ids]);
    assert.deepEqual(logprobs, [...reply.logprobs]);
  });

  list.add('a request that is aborted resolves with what there is', async (server) => {
    const before = await server.generate(request({ signal: AbortSignal.abort() }));
    checkReply(before);
    assert.equal(before.finish, 'abort');
    const stop = new AbortController();
    const running = server.generate(request({ signal: stop.signal }, { maxTokens: 64 }));
    setTimeout(() => stop.abort(), 5);
    checkReply(await running);
    const after = await server.generate(request());
    assert.notEqual(after.finish, 'abort');
  });

  list.add('a paused server begins no request until it is resumed', async (server) => {
    await server.pause('wait');
    let hasAnswered = false;
    const waiting = server.generate(request()).then((reply) => {
      hasAnswered = true;
      return reply;
    });
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
    assert.equal(hasAnswered, false, 'it answered while it was paused');
    await server.resume();
    checkReply(await waiting);
  });

  if (can.has('seeds')) {
    list.add('the same request with the same seed gets the same reply', async (server) => {
      const [one, other] = [await server.generate(request()), await server.generate(request())];
      assert.deepEqual([...other.ids], [...one.ids]);
      const third = await server.generate(request({}, { seed: 8, maxTokens: 64 }));
      const longer = await server.generate(request({}, { maxTokens: 64 }));
      assert.notDeepEqual([...third.ids], [...longer.ids]);
    });
  }

  if (can.has('scorePrompt')) {
    list.add('log-probs of a reply are those that it gets when it is scored as a prompt', async (server) => {
      const reply = await server.generate(request());
      const whole = Int32Array.of(...prompt, ...reply.ids);
      const scoring = request({ prompt: whole, scorePrompt: true }, { maxTokens: 1 });
      const { promptLogprobs } = await server.generate(scoring);
      assert.equal(promptLogprobs?.length, whole.length);
      assert.ok(Number.isNaN(promptLogprobs![0]), 'nothing predicts the first token: its log-prob is NaN');
      reply.logprobs.forEach((logprob, at) => {
        const again = promptLogprobs![prompt.length + at]!;
        assert.ok(
          Math.abs(logprob - again) <= tolerance,
          `token ${at} of the reply: ${logprob} when sampled, ${again} when scored`,
        );
      });
    });
  }

  if (update) {
    list.add('after an update every token is of its version', async (server) => {
      const { version } = await server.info();
      await server.pause('wait');
      await server.update(await update(version + 3));
      await server.resume();
      assert.equal((await server.info()).version, version + 3);
      const { versions } = await server.generate(request());
      assert.deepEqual(versions, [{ from: 0, version: version + 3 }]);
    });
  }

  for (const kind of ['collective', 'pushed'] as const) {
    if (can.has(kind)) continue;
    list.add(`weights that come by ${kind}, which it cannot take, are refused`, async (server) => {
      const { version } = await server.info();
      await assert.rejects(server.update({ kind, version: version + 1, group: 'none' } as WeightUpdate));
      assert.equal((await server.info()).version, version);
    });
  }

  list.add('it may be closed twice', (server) => server.close());
  return list.cases;
}

/** What holds of every result, partials too. */
function checkReply({ ids, logprobs, versions }: GenerateResult): void {
  assert.equal(logprobs.length, ids.length);
  for (const [at, logprob] of logprobs.entries()) {
    assert.ok(logprob <= 1e-6 && Number.isFinite(logprob), `log-prob ${at} is ${logprob}`);
  }
  assert.ok(
    ids.every((id) => id >= 0),
    'an id is negative',
  );
  if (ids.length > 0) assert.equal(versions[0]?.from, 0);
  for (const [at, span] of versions.entries()) {
    const next = versions[at + 1];
    if (next) assert.ok(next.from > span.from && next.version > span.version, 'versions go back');
  }
}
