import { agent, arrayDataset, createBatch } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { tabularTrainer } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { resolveOptions } from '../src/options.ts';
import { resolveUpdate } from '../src/training/update-options.ts';

test("an update's defaults are those of train", () => {
  const { optimizer } = resolveOptions({
    model: 'model',
    runDir: 'run',
    tasks: arrayDataset([{ question: 'one?' }]),
    agent: agent(async () => {}),
    rewards: [],
  });
  const algorithm = grpo();
  const batch = createBatch([], { step: 1, version: 0, algorithm });
  const trainer = tabularTrainer({ vocabulary: 2 });
  const { adam, ...passes } = resolveUpdate({ trainer, batch, algorithm }).optimizer;
  expect(optimizer).toMatchObject(adam);
  const { miniBatches, epochs, tokensPerMicroBatch } = passes;
  expect(optimizer).toMatchObject({ miniBatches, epochs, tokensPerMicroBatch });
});
