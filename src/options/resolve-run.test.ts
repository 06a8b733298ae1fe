import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { VERL_TABLE } from '../verl/table.ts';
import { resolveRun } from './resolve-run.ts';
import { isOption } from './schema.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-options-'));
const path = join(folder, 'run.yaml');
const resolve = (overrides: readonly string[], yaml?: string) => {
  if (yaml !== undefined) writeFileSync(path, yaml);
  return resolveRun({
    overrides,
    environment: {},
    exists: () => true,
    ...(yaml !== undefined && { file: path }),
  });
};

describe('every row of the table', () => {
  test.each(VERL_TABLE.map((row) => [row.key, row] as const))(
    '%s: another value means something else',
    async (_, row) => {
      const key = row.key.replace('*', 'name');
      const beside = Object.entries(row.beside).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
      const meaningOf = async (value: unknown) => {
        const { options, notes, refused } = await resolve([...beside, `${key}=${JSON.stringify(value)}`]);
        return { options, notes, refused };
      };
      const [one, other] = row.samples;
      const first = await meaningOf(one);
      const second = await meaningOf(other);
      expect(first).not.toEqual(second);
      if (row.kind === 'option') expect(first.options).not.toEqual(second.options);
      else expect(first.options).toEqual(second.options);
      if (row.kind === 'no effect') expect([...first.refused, ...second.refused]).toEqual([]);
      if (row.kind === 'not yet') expect(second.refused).toEqual([expect.stringContaining('not yet')]);
    },
  );

  test('sets options that exist, and no key stands in it twice', () => {
    const unknown = VERL_TABLE.flatMap((row) => row.to).filter((name) => !isOption(name));
    expect(unknown).toEqual([]);
    const keys = VERL_TABLE.map((row) => row.key);
    expect(keys.filter((key, at) => keys.indexOf(key) !== at)).toEqual([]);
  });

  test('no key of verl is also a name of ours', () => {
    expect(VERL_TABLE.filter((row) => isOption(row.key)).map((row) => row.key)).toEqual([]);
  });
});

describe('the order', () => {
  test('a file goes before the default, the command line before the file, in either vocabulary', async () => {
    expect((await resolve([], 'steps: 7\n')).options.steps).toBe(7);
    expect((await resolve(['steps=9'], 'steps: 7\n')).options.steps).toBe(9);
    expect((await resolve(['trainer.total_training_steps=9'], 'steps: 7\n')).options.steps).toBe(9);
    expect((await resolve(['tasksPerStep=9'], 'data:\n  train_batch_size: 7\n')).options.tasksPerStep).toBe(
      9,
    );
  });

  test('an override beats what a file derives', async () => {
    const yaml = 'data: {train_batch_size: 8}\nactor_rollout_ref: {actor: {ppo_mini_batch_size: 2}}\n';
    expect((await resolve([], yaml)).options.optimizer.miniBatches).toBe(4);
    expect((await resolve(['optimizer.miniBatches=3'], yaml)).options.optimizer.miniBatches).toBe(3);
    expect((await resolve(['tasksPerStep=16'], yaml)).options.optimizer.miniBatches).toBe(8);
  });

  test('the last of two equal words counts', async () => {
    expect((await resolve(['steps=1', 'steps=2'])).options.steps).toBe(2);
  });

  test('~ takes a file’s value back to its default, alone or a whole group', async () => {
    const yaml = 'limits:\n  turns: 3\n  callsPerTurn: 2\n';
    expect((await resolve(['~limits.turns'], yaml)).options.limits).toMatchObject({
      turns: 8,
      callsPerTurn: 2,
    });
    expect((await resolve(['~limits'], yaml)).options.limits).toMatchObject({ turns: 8, callsPerTurn: 8 });
  });

  test('one option in both vocabularies in one place is an error that names both', async () => {
    await expect(resolve(['tasksPerStep=4', 'data.train_batch_size=4'])).rejects.toThrow(
      /data\.train_batch_size and tasksPerStep .* are the same option/,
    );
    await expect(resolve([], 'tasksPerStep: 4\ndata:\n  train_batch_size: 4\n')).rejects.toThrow(
      `${path}:3:3: data.train_batch_size and tasksPerStep (${path}:1:1) are the same option`,
    );
  });

  test('two keys of verl that disagree are an error; that agree are not', async () => {
    const keys = (one: number, other: number) => [
      `actor_rollout_ref.rollout.max_turns=${one}`,
      `actor_rollout_ref.rollout.multi_turn.max_assistant_turns=${other}`,
    ];
    await expect(resolve(keys(4, 5))).rejects.toThrow('says limits.turns is 5, but');
    expect((await resolve(keys(4, 4))).options.limits.turns).toBe(4);
  });
});

describe('errors', () => {
  test.each([
    ['limits:\n  tunrs: 3\n', ':2:3: unknown option limits.tunrs; the nearest known ones are limits.turns'],
    [
      'data:\n  train_batch_sise: 3\n',
      ':2:3: unknown option data.train_batch_sise; the nearest known ones are data.train_batch_size',
    ],
    ['steps: many\n', ':1:1: steps is many; use a whole number of 0 or more'],
    ['\nsampling:\n  topP: 2\n', ':3:3: sampling.topP is 2; use a number from 0 to 1'],
    ['trainer:\n  test_freq: often\n', ':2:3: trainer.test_freq is often'],
    ['limits: 3\n', ':1:1: limits is 3, but it is a group of options'],
    [
      'algorithm:\n  adv_estimator: gpro\n',
      ':2:3: algorithm.adv_estimator is gpro; use one of gdpo, gpg, grpo',
    ],
    ['a: [1\n', ':2:1: not YAML'],
    ['- a\n', ':1:1: holds no mapping'],
    [`model: \${oc.env:NOT_THERE}\n`, ':1:1: the environment variable NOT_THERE is not set'],
  ])('%j', async (yaml, message) => {
    await expect(resolve([], yaml)).rejects.toThrow(`${path}${message}`);
  });

  test('a number of verl that is none is named by its key and by ours', async () => {
    await expect(resolve(['data.train_batch_size=big'])).rejects.toThrow(
      'data.train_batch_size=big: data.train_batch_size is big (our tasksPerStep); use a whole number of 1 or more',
    );
  });

  test('a flag of verl that is neither true nor false is an error', async () => {
    const key = 'actor_rollout_ref.actor.use_kl_loss';
    for (const word of ['no', 'off', '0', 'ja']) {
      await expect(resolve([`${key}=${word}`])).rejects.toThrow(
        `${key}=${word}: ${key} is ${word}; use true or false`,
      );
    }
    await expect(resolve(['data.need_tools_kwargs=no'])).rejects.toThrow('use true or false');
    await expect(resolve(['actor_rollout_ref.actor.clip_ratio=wide'])).rejects.toThrow('use a number');
  });

  test('in a file verl’s yes and no are flags, as YAML 1.1 has them', async () => {
    const file = (word: string) => `actor_rollout_ref:\n  actor:\n    use_kl_loss: ${word}\n`;
    for (const word of ['no', 'Off', 'false']) {
      expect((await resolve([], file(word))).options.algorithm.kl.as).toBe('off');
    }
    for (const word of ['yes', 'ON', 'true']) {
      expect((await resolve([], file(word))).options.algorithm.kl.as).toBe('loss');
    }
  });

  test('KL in the reward and as a loss at once is refused', async () => {
    const { refused } = await resolve([
      'algorithm.use_kl_in_reward=True',
      'actor_rollout_ref.actor.use_kl_loss=True',
    ]);
    expect(refused).toEqual([expect.stringContaining('at once')]);
  });
});

test('verl’s multi-turn YAML, with what belongs to Hydra, resolves', async () => {
  const { options, refused } = await resolve(
    [],
    `
hydra:
  searchpath:
    - file://verl/trainer/config

defaults:
  - ppo_trainer
  - _self_

data:
  max_prompt_length: 1024
  max_response_length: 1024
  train_batch_size: 256
  return_raw_chat: True

actor_rollout_ref:
  hybrid_engine: True
  rollout:
    name: sglang
    multi_turn:
      enable: True
      max_assistant_turns: 5

trainer:
  project_name: gsm8k
  experiment_name: \${trainer.project_name}-multi-turn
`,
  );
  expect(refused.filter((line) => !line.includes(': not yet: '))).toEqual([]);
  expect(options).toMatchObject({ tasksPerStep: 256, limits: { turns: 5 }, experiment: 'gsm8k-multi-turn' });
});

test('an agent class of the user’s is given agent_loop_config whole; without one, what no agent reads is refused', async () => {
  const config = 'actor_rollout_ref.rollout.agent_loop_config';
  const given = [`${config}.max_turns=4`, `${config}.tone=kind`, `${config}.inner.depth=2`];
  const own = await resolve([...given, 'actor_rollout_ref.rollout.agent_loop_class=agents.ts#Mine']);
  expect(own.options.agent.config).toEqual({ max_turns: 4, tone: 'kind', inner: { depth: 2 } });
  expect(own.refused).toEqual([]);
  const { options, refused } = await resolve(given);
  expect(options.limits.turns).toBe(4);
  expect(options.agent.config).toEqual({});
  expect(refused).toEqual([
    expect.stringMatching(
      /agent_loop_config.tone=kind: no agent takes it; .*max_turns, tools, stop_on_correct/,
    ),
    expect.stringContaining('agent_loop_config.inner.depth=2: no agent takes it'),
  ]);
});

test('an option of an order that does not read it is refused', async () => {
  const column = 'data.sampler.column=difficulty';
  expect((await resolve([column])).refused).toEqual([
    expect.stringMatching(
      /data.sampler.column is difficulty, which the order shuffle does not read; .*=difficulty/,
    ),
  ]);
  expect((await resolve([column, 'order.kind=difficulty'])).refused).toEqual([]);
  expect((await resolve(['order.kind=zone', 'order.low=0.2', 'order.hardFirst=true'])).refused).toHaveLength(
    1,
  );
});

test('a sampler class is one of those there are, and a mini-batch divides the batch', async () => {
  await expect(resolve(['data.sampler.class_name=MySampler'])).rejects.toThrow(
    'use one of RandomCurriculumSampler, EasyToHardSampler',
  );
  const line = ['data.train_batch_size=256', 'actor_rollout_ref.actor.ppo_mini_batch_size=100'];
  await expect(resolve(line)).rejects.toThrow('is 100, which does not divide the 256 tasks of a step');
});

test('a key of the command line takes the place of the same key in the file', async () => {
  const yaml = 'data: {train_batch_size: 256}\nactor_rollout_ref: {actor: {ppo_mini_batch_size: 64}}\n';
  const words = ['data.train_batch_size=6', 'actor_rollout_ref.actor.ppo_mini_batch_size=3'];
  const { options } = await resolve(words, yaml);
  expect(options).toMatchObject({ tasksPerStep: 6, optimizer: { miniBatches: 2 } });
});

test('a value of the wrong shape is shown as it was given', async () => {
  await expect(resolve(['data.train_files={a: 1}'])).rejects.toThrow(
    'data.train_files is {"a":1}; use one name, or a list of names',
  );
});

test('verl’s warm-up is a share of the steps unless their number is given', async () => {
  const warmup = async (...words: readonly string[]) => {
    const { options } = await resolve(words.map((word) => `actor_rollout_ref.actor.optim.${word}`));
    return [options.optimizer.warmupSteps, options.optimizer.warmupShare];
  };
  expect(await warmup('lr_warmup_steps_ratio=0.1')).toEqual([0, 0.1]);
  expect(await warmup('lr_warmup_steps=-1', 'lr_warmup_steps_ratio=0.1')).toEqual([0, 0.1]);
  expect(await warmup('lr_warmup_steps=10', 'lr_warmup_steps_ratio=0.0')).toEqual([10, 0]);
  expect(await warmup('lr_warmup_steps=10', 'lr_warmup_steps_ratio=0.1')).toEqual([10, 0]);
  expect(await warmup('lr_warmup_steps=0', 'lr_warmup_steps_ratio=0.1')).toEqual([0, 0]);
});

test('KL in the reward is k1 unless another estimator is given, in either vocabulary and place', async () => {
  const estimator = async (words: readonly string[], yaml?: string) =>
    (await resolve(words, yaml)).options.algorithm.kl.estimator;
  const on = 'algorithm.use_kl_in_reward=True';
  expect(await estimator([on])).toBe('k1');
  expect(await estimator([on, 'algorithm.kl_penalty=low_var_kl'])).toBe('k3');
  expect(await estimator([on], 'algorithm: {kl_penalty: abs}\n')).toBe('abs');
  expect(await estimator([on, 'algorithm.kl.estimator=k2'])).toBe('k2');
  expect(await estimator([on, 'actor_rollout_ref.actor.kl_loss_type=low_var_kl'])).toBe('k1');
  expect(await estimator(['actor_rollout_ref.actor.use_kl_loss=True'])).toBe('k3');
});

test('weights normalised over the batch are refused in bypass mode, where they would be used', async () => {
  const refusals = async (...words: readonly string[]) =>
    (await resolve(words.map((word) => `algorithm.rollout_correction.${word}`))).refused;
  const normalized = ['rollout_is=sequence', 'rollout_is_batch_normalize=True'];
  expect(await refusals(...normalized)).toEqual([]);
  expect(await refusals(...normalized, 'bypass_mode=True', 'loss_type=ppo_clip')).toEqual([]);
  expect(await refusals(...normalized, 'bypass_mode=True', 'loss_type=reinforce')).toEqual([
    expect.stringContaining('no mean over the batch is known'),
  ]);
});

test('verl counts batches of generation, the first among them; here refills are counted', async () => {
  const refills = async (batches: number) =>
    (await resolve([`algorithm.filter_groups.max_num_gen_batches=${batches}`])).options.algorithm
      .dynamicSampling.maxRefills;
  expect(await refills(10)).toBe(9);
  expect(await refills(1)).toBe(0);
  expect(await refills(0)).toBe(-1);
});

describe('a mode', () => {
  test('is named as a whole, beside its numbers', async () => {
    const { options, refused } = await resolve(['mode=asynchronous', 'mode.staleness=3']);
    expect(options.mode).toMatchObject({ kind: 'asynchronous', staleness: 3 });
    expect(refused).toEqual([]);
    expect((await resolve([], 'mode: tail-rounds\nmode.extraTasks: 8\n')).options.mode.extraTasks).toBe(8);
  });

  test('that says nothing sensible is refused', async () => {
    expect((await resolve(['mode=partial'])).refused).toEqual([
      expect.stringContaining('mode is partial, but mode.extraTasks is 0'),
    ]);
  });

  test('is one of verl’s trainers', async () => {
    const modeOf = async (...words: string[]) => (await resolve(words)).options.mode;
    expect(await modeOf('trainer.v1.trainer_mode=sync')).toMatchObject({ kind: 'synchronous' });
    expect(
      await modeOf(
        'trainer.v1.trainer_mode=colocate_async',
        'data.train_batch_size=64',
        'trainer.v1.colocate_async.num_warmup_batches=2',
      ),
    ).toMatchObject({ kind: 'partial', extraTasks: 128, staleness: 2 });
    // verl leaves out a group if step − its step + 1 is above the threshold.
    expect(
      await modeOf('trainer.v1.trainer_mode=separate_async', 'trainer.v1.sampler.max_off_policy_threshold=8'),
    ).toMatchObject({ kind: 'asynchronous', staleness: 7 });
    expect(await modeOf('async_training.staleness_threshold=0.1')).toMatchObject({
      kind: 'asynchronous',
      staleness: 1,
    });
  });
});
