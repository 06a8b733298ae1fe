import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, reward, type TrainOptions, train } from 'rollcall';
import { byteModel, inferenceServerContract, trainerContract } from 'rollcall/testing';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { Bigram } from './outside/bigram.ts';
import { BigramEngine } from './outside/engine.ts';
import { BigramTrainer, bigramTrainers } from './outside/trainer.ts';
import { tinyModel } from './tiny-model.ts';

/** An engine and a trainer as a package of someone else: test/outside/. */
const FOLDER = 'test/outside';
const files = readdirSync(FOLDER).filter((file) => file.endsWith('.ts'));

test('the package imports nothing of ours but the ports, and compiles by its own settings', () => {
  const imported = files.flatMap((file) =>
    [...readFileSync(join(FOLDER, file), 'utf8').matchAll(/from '([^']+)'/g)].map(([, name]) => name!),
  );
  const foreign = imported.filter((name) => !/^(\.\/|node:|rollcall\/(ports|testing)$)/.test(name));
  expect(foreign).toEqual([]);
  expect(imported).toContain('rollcall/ports');
  const { config } = ts.readConfigFile(join(FOLDER, 'tsconfig.json'), ts.sys.readFile);
  const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, FOLDER);
  const program = ts.createProgram(fileNames, options);
  const problems = fileNames.flatMap((file) => program.getSemanticDiagnostics(program.getSourceFile(file)));
  expect(problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([]);
}, 60_000);

describe('its engine', async () => {
  const open = async () => new BigramEngine(new Bigram(8));
  const update = (version: number) => ({ kind: 'pushed', version }) as const;
  for (const { name, run } of await inferenceServerContract(open, { update })) test(name, run);
});

describe('its trainer', async () => {
  const open = async () => new BigramTrainer(8, []);
  for (const { name, run } of await trainerContract(open, { vocabulary: 8 })) test(name, run);
});

const { vocabularySize } = byteModel().tokenizer;

async function options(
  served: readonly Bigram[],
  trained: readonly Bigram[],
): Promise<TrainOptions<{ letter: string }>> {
  return {
    model: await tinyModel(),
    runDir: join(await mkdtemp(join(tmpdir(), 'rollcall-outside-')), 'run'),
    tasks: arrayDataset(['a', 'b', 'c', 'd'].map((letter) => ({ letter }))),
    agent: agent(async ({ task, model }) => {
      const chat = model.chat();
      chat.user(task.letter);
      await chat.sample();
    }),
    rewards: [
      reward(
        'small',
        ({ trajectory: { text } }) => [...text].filter((character) => character < 'p').length / 8,
      ),
    ],
    servers: {
      name: 'bigram',
      gateway: { whileUpdating: 'wait' },
      open: async () => served.map((model) => new BigramEngine(model)),
    },
    trainer: bigramTrainers(vocabularySize, trained),
    steps: 8,
    tasksPerStep: 4,
    attemptsPerTask: 8,
    limits: { tokensPerReply: 8 },
    optimizer: { learningRate: 0.3 },
    evaluation: { before: false, every: 0 },
    checkpoints: { every: 0 },
  };
}

test('the two train together: weights are pushed, every token has its version, and it learns', async () => {
  const served = [new Bigram(vocabularySize), new Bigram(vocabularySize)];
  const rewards: number[] = [];
  for await (const { step, version, groups, metrics } of train(await options(served, served))) {
    rewards.push(metrics['critic/score/mean']!);
    expect(version).toBe(step);
    const versions = groups.flatMap(({ attempts }) =>
      attempts.flatMap(({ trajectory }) => trajectory.segments.flatMap((segment) => [...segment.versions])),
    );
    expect(new Set(versions.filter((sampledBy) => sampledBy >= 0))).toEqual(new Set([step - 1]));
  }
  expect(rewards).toHaveLength(8);
  expect(rewards.at(-1)!).toBeGreaterThan(rewards[0]! + 0.1);
});

test('attestation holds there too: a server that its trainer forgets is found at once', async () => {
  const served = [new Bigram(vocabularySize)];
  const run = train(await options(served, []));
  await expect(run.next()).rejects.toThrow(
    /no server is left: .*the update did not arrive: its log-probs are .* off; 0\.0001 is allowed/,
  );
});
