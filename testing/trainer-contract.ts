import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Trainer } from '../src/training/trainer.ts';
import { CaseList, type ContractCase } from './contract.ts';
import { row, sum, TrainerProbe } from './trainer-probe.ts';

/** What a trainer is tested with: the size of its vocabulary, a tolerance, a learning rate. */
export interface TrainerContractOptions {
  /** Size of the model's vocabulary: the probabilities of all next tokens are summed. */
  readonly vocabulary: number;
  /** How far two numbers that should be equal may differ; bfloat16 needs more. */
  readonly tolerance?: number;
  /** A learning rate whose step moves log-probs by far more than the tolerance. */
  readonly learningRate?: number;
}

/**
 * What every trainer of a policy keeps, as cases that a test runner calls. Abilities that it states (`can`) are tested
 * where it has them, so it is opened once to be asked.
 */
export async function trainerContract(
  open: () => Promise<Trainer>,
  { vocabulary, tolerance = 1e-4, learningRate = 1e-2 }: TrainerContractOptions,
): Promise<readonly ContractCase[]> {
  const asked = await open();
  const { can } = asked;
  await asked.close();
  const list = new CaseList(open);
  const probe = new TrainerProbe(can, { vocabulary, tolerance, learningRate });
  addOutputs(list, probe, can);
  addGradients(list, probe, can);
  addSteps(list, probe, can, tolerance);
  addFolders(list, probe, can);
  return list.cases;
}

function addOutputs(list: CaseList<Trainer>, probe: TrainerProbe, can: Trainer['can']): void {
  const { rows, outputs } = probe;

  list.add('outputs have the length of their row and are 0 where there is no target', async (trainer) => {
    const scored = await probe.score(trainer);
    for (const output of outputs) {
      assert.equal(scored[output]!.length, rows.length);
      for (const [at, { ids, targets }] of rows.entries()) {
        const values = scored[output]![at]!;
        assert.equal(values.length, ids.length);
        for (const [position, value] of values.entries()) {
          assert.ok(Number.isFinite(value), `${output} of row ${at} at ${position} is ${value}`);
          if (!targets[position]) assert.equal(value, 0);
        }
      }
    }
  });

  list.add('the probabilities of all tokens that may come next sum to 1', async (trainer) => {
    const logprobs = await probe.distribution(trainer, 3);
    probe.near(sum(logprobs.map(Math.exp)), 1, 'sum of probabilities');
  });

  list.add('a forward pass gives what scoring gives, also row by row', async (trainer) => {
    const scored = await probe.score(trainer);
    const pass = await trainer.forward(rows, { temperature: 1, outputs });
    await pass.discard();
    probe.equal(pass.outputs, scored, 'forward');
    for (const [at, one] of rows.entries()) {
      const alone = await probe.score(trainer, [one]);
      probe.near(sum([...alone.logprob![0]!]), sum([...scored.logprob![at]!]), `row ${at} alone`);
    }
  });

  /** An output at the token after a 3, against the same number from all probabilities. */
  const addFromProbabilities = (
    output: 'entropy' | 'sumSquares',
    rule: string,
    of: (logprob: number) => number,
  ) => {
    if (!can.has(output)) return;
    list.add(rule, async (trainer) => {
      const scored = await probe.score(trainer, [row([3, 1], 1)]);
      probe.near(scored[output]![0]![1]!, sum((await probe.distribution(trainer, 3)).map(of)), output);
    });
  };
  addFromProbabilities('entropy', 'entropy is −Σ π log π', (logprob) => -Math.exp(logprob) * logprob);
  addFromProbabilities('sumSquares', 'sumSquares is Σ π²', (logprob) => Math.exp(2 * logprob));

  if (can.has('temperature')) {
    list.add('at temperature T log-probs are those of π^(1/T), normalised', async (trainer) => {
      const logprobs = await probe.distribution(trainer, 3);
      const normaliser = Math.log(sum(logprobs.map((logprob) => Math.exp(logprob / 0.7))));
      const scored = await probe.score(trainer, [row([3, 2], 1)], 0.7);
      probe.near(scored.logprob![0]![1]!, logprobs[2]! / 0.7 - normaliser, 'log-prob at T = 0.7');
    });
  }

  list.add('scoring that was aborted rejects', async (trainer) => {
    const options = { temperature: 1, outputs: ['logprob'] as const, signal: AbortSignal.abort() };
    await assert.rejects(trainer.score(rows, options));
    await probe.score(trainer);
  });
}

function addGradients(list: CaseList<Trainer>, probe: TrainerProbe, can: Trainer['can']): void {
  const { rows } = probe;

  list.add('gradients add up over rows and calls, and a step clears them', async (trainer) => {
    await probe.backward(trainer);
    const together = await probe.gradNorm(trainer);
    assert.ok(together > 0, `the norm of the gradient is ${together}`);
    for (const one of rows) await probe.backward(trainer, [one]);
    probe.near(await probe.gradNorm(trainer), together, 'norm of two calls');
    await probe.backward(trainer, rows, { by: -2 });
    probe.near(await probe.gradNorm(trainer), 2 * together, 'norm of twice the gradient');
    assert.equal(await probe.gradNorm(trainer), 0, 'a step left a gradient');
    await (await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] })).discard();
    assert.equal(await probe.gradNorm(trainer), 0, 'a pass that was discarded left a gradient');
  });

  if (can.has('prefix')) {
    list.add('rows that share a beginning give what they give apart', async (trainer) => {
      const apart = [row([1, 2, 3, 4, 5, 6], 4), row([1, 2, 3, 4, 6, 5], 4)];
      const shared = [apart[0]!, { ...apart[1]!, prefix: { row: 0, length: 4 } }];
      probe.equal(await probe.score(trainer, shared), await probe.score(trainer, apart), 'shared prefix');
      await probe.backward(trainer, apart);
      const expected = await probe.gradNorm(trainer);
      await probe.backward(trainer, shared);
      probe.near(await probe.gradNorm(trainer), expected, 'norm of the gradient');
    });
  }
}

function addSteps(
  list: CaseList<Trainer>,
  probe: TrainerProbe,
  can: Trainer['can'],
  tolerance: number,
): void {
  const { rows, adam } = probe;
  for (const output of ['logprob', 'value'] as const) {
    if (output === 'value' && !can.has('value')) continue;
    list.add(`a step on a loss that falls as ${output} rises makes it rise`, async (trainer) => {
      const total = async () => sum((await probe.score(trainer))[output]!.flatMap((values) => [...values]));
      const before = await total();
      await probe.backward(trainer, rows, { output });
      const { skipped } = await trainer.optimStep(adam);
      assert.equal(skipped, false);
      const after = await total();
      assert.ok(after > before + tolerance, `${output}: ${before} before, ${after} after`);
    });
  }

  list.add('a gradient that is not finite is skipped and cleared', async (trainer) => {
    const before = await probe.score(trainer);
    await probe.backward(trainer, rows, { by: Number.NaN });
    assert.equal((await trainer.optimStep(adam)).skipped, true);
    probe.equal(await probe.score(trainer), before, 'after a skipped step');
    await probe.backward(trainer);
    assert.equal((await trainer.optimStep(adam)).skipped, false);
  });
}

function addFolders(list: CaseList<Trainer>, probe: TrainerProbe, can: Trainer['can']): void {
  list.add('what was saved and loaded goes on as if it had never stopped', async (trainer) => {
    const directory = await mkdtemp(join(tmpdir(), 'rollcall-contract-'));
    // Gradients of both signs: with one sign alone Adam's steps hardly depend on those before.
    const step = async (by: number) => {
      await probe.backward(trainer, probe.rows, { by });
      await trainer.optimStep(probe.adam);
    };
    try {
      await step(-3);
      await trainer.save(directory);
      const saved = await probe.score(trainer);
      await step(1);
      const next = await probe.score(trainer);
      await step(1);
      await trainer.load(directory);
      probe.equal(await probe.score(trainer), saved, 'after loading');
      await step(1);
      probe.equal(await probe.score(trainer), next, 'after a step with the optimizer that was loaded');
      const weights = (await readdir(directory)).filter((file) => file.endsWith('.safetensors'));
      const others = weights.filter((file) => !/^(adapter_)?model/.test(file));
      assert.deepEqual(others, [], 'servers would load these as weights of the model');
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  list.add('an update that is published has the stated kind and version', async (trainer) => {
    const update = await trainer.publish(12);
    assert.equal(update.kind, trainer.publishes);
    assert.equal(update.version, 12);
  });

  if (can.has('lora')) {
    list.add('a trainer of adapters gives the adapter', async (trainer) => {
      const { config, tensors } = await trainer.adapter!();
      assert.equal(config['peft_type'], 'LORA');
      assert.ok(tensors.size > 0, 'it has no tensors');
    });
  }

  list.add('it may be closed twice', (trainer) => trainer.close());
}
