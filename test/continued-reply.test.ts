import { agent, embedded, rollout } from 'rollcall';
import { byteModel } from 'rollcall/testing';
import { expect, onTestFinished, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

test('new weights that interrupt a reply leave one reply of two versions, not a failed trajectory', async () => {
  const { format } = byteModel();
  const [first, second] = [await tinyModel(1), await tinyModel(2)];
  const [server] = await embedded({ threads: 1 }).servers.open(first);
  onTestFinished(() => server!.close());
  let seen = 0;
  let updated: Promise<void> | undefined;
  const update = async () => {
    await server!.pause('abort');
    await server!.update({ kind: 'disk', version: 1, path: second });
    await server!.resume();
  };
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: agent(async ({ model }) => {
      const chat = model.chat();
      chat.user('go');
      await chat.sample();
    }),
    server: {
      generate: (request) =>
        server!.generate({
          ...request,
          sampling: { ...request.sampling, stopIds: [] }, // a random model would stop at random
          onTokens: (ids) => {
            seen += ids.length;
            if (seen >= 5) updated ??= update();
          },
        }),
    },
    format,
    rewards: [],
    limits: { tokensPerReply: 300 },
    seed: 1,
  });
  await updated;
  const { trajectory } = group!.attempts[0]!;
  expect(trajectory.end).toEqual({ kind: 'truncated', why: 'tokens' });
  const [{ sampled, versions, trained }] = trajectory.segments as [(typeof trajectory.segments)[number]];
  const made = [...versions].filter((_, at) => sampled[at]);
  expect(made).toHaveLength(300);
  const turned = made.indexOf(1);
  expect(turned).toBeGreaterThanOrEqual(5);
  expect(made).toEqual(made.map((_, at) => (at < turned ? 0 : 1)));
  expect(trained).toEqual(sampled);
  expect(trajectory.turns).toHaveLength(1);
});
