import { setImmediate } from 'node:timers/promises';
import { demonstrationTokens } from './chat/demonstration.ts';
import type { Dataset } from './dataset/dataset.ts';
import { createSampler, type SamplerState } from './dataset/sampler.ts';
import { embedded } from './engine/embedded.ts';
import { ConfigError, DatasetError } from './errors.ts';
import { realClock } from './lib/clock.ts';
import { hashSeed } from './lib/random.ts';
import { type ChatOverrides, type Progress, resolvePlain } from './options.ts';
import { openChatFormat } from './run/chat-format.ts';
import { teller } from './run/open-parts.ts';
import { Room } from './run/room.ts';
import { untrainedTokensNotice } from './run/untrained-tokens.ts';
import { learningRateShare, type Schedule } from './training/learning-rate.ts';
import type { AdamOptions, TrainerFactory } from './training/trainer.ts';
import { type Demonstration, updateSupervised } from './training/update-supervised.ts';
import type { Message, Metrics, ToolSchema } from './types.ts';
import {
  appendMetrics,
  createRunDirectory,
  discardPast,
  readLatestCheckpoint,
  writeCheckpoint,
} from './watch/run-directory.ts';
import { reasonOf, writeRunEnd } from './watch/run-end.ts';

/**
 * Supervised fine-tuning: the same trainer with cross-entropy on the replies of demonstrations. A model that never
 * calls a tool cannot learn by reward to call one; a few hundred demonstrations give it the first calls.
 */
export interface SftOptions {
  readonly model: string;
  /** Rows with `messages`, and `tools` where the dialogue has them. */
  readonly demonstrations: Dataset<DemonstrationRow>;
  readonly runDir: string;
  readonly steps: number;
  readonly demonstrationsPerStep?: number;
  /** Named as in `train`; the learning rate is 1e-5 and falls to 0 unless given. */
  readonly optimizer?: Partial<AdamOptions> & {
    readonly schedule?: Schedule['shape'];
    readonly warmupSteps?: number;
    readonly tokensPerMicroBatch?: number;
  };
  /** Steps between checkpoints (100), and how many are kept (2). The last step always leaves one. */
  readonly checkpoints?: { readonly every?: number; readonly keep?: number };
  readonly seed?: number;
  readonly resume?: boolean;
  /** What trains; default the embedded engine in this process. */
  readonly trainer?: TrainerFactory;
  /** Overrides parts of the chat format that the model's files give, as in `train`. */
  readonly chat?: ChatOverrides;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

/** A demonstration as a row of a dataset: messages, and the tools that they use. */
export interface DemonstrationRow {
  readonly messages: readonly Message[];
  readonly tools?: readonly ToolSchema[];
}

/** What `sft` reports after each update. */
export interface SftReport {
  readonly step: number;
  readonly steps: number;
  readonly metrics: Metrics;
  /** The newest checkpoint: a model folder. Undefined until the first was written. */
  readonly model: string | undefined;
  /** Sentences for the user, with the first step: what looks wrong, and what to do. */
  readonly notices: readonly string[];
}

const ADAM: AdamOptions = {
  learningRate: 1e-5, // fine-tuning a pretrained model; a fresh small one takes 1e-3 and more
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  clipNorm: 1,
};

/** Supervised training on demonstrations: an async iterable of reports. */
export async function* sft(options: SftOptions): AsyncGenerator<SftReport, void, void> {
  const { runDir, steps, seed = 1, demonstrationsPerStep = 32, signal } = options;
  const { every = 100, keep = 2 } = options.checkpoints ?? {};
  const {
    schedule = 'linear',
    warmupSteps = 0,
    tokensPerMicroBatch = 16_384,
    ...adam
  } = { ...ADAM, ...options.optimizer };
  if (!(steps >= 1)) throw new ConfigError(`steps is ${steps}; use a whole number of 1 or more`);
  const { directory, format } = await openChatFormat(options.model, { chat: options.chat, signal });
  const sampler = await createSampler(
    options.demonstrations,
    { kind: 'shuffle' },
    hashSeed(seed, 'demonstrations'),
  );
  const resumed = options.resume ? await readLatestCheckpoint(runDir) : undefined;
  if (options.resume)
    await discardPast(runDir, resumed?.step ?? 0, new Date().toISOString().replaceAll(':', '-'));
  else
    await createRunDirectory(runDir, {
      kind: 'sft',
      model: options.model,
      steps,
      seed,
      demonstrationsPerStep,
    });
  const trainers: TrainerFactory = options.trainer ?? embedded().trainer;
  const trainer = await trainers.open('policy', directory);
  const clock = realClock();
  let step = resumed?.step ?? 0;
  let checkpointed = step;
  let model = resumed?.path;
  let samplerState = sampler.state();
  const tell = teller({});
  const room = new Room({ directory: runDir, clock, signal, ...resolvePlain({}).disk, tell });
  for (const damage of resumed?.damaged ?? []) tell(`${damage}; training continues from step ${step}`);
  const checkpoint = async () => {
    const state = { sampler: samplerState };
    model = await room.during(`the checkpoint of step ${step}`, () =>
      writeCheckpoint(runDir, step, state, (folder) => trainer.save(folder), keep),
    );
    checkpointed = step;
  };
  /** The next step's demonstrations as tokens, made while the trainer computes; between rows its answers are read. */
  const prepare = async () => {
    const demonstrations: Demonstration[] = [];
    let hasTools = false;
    for (const place of sampler.next(demonstrationsPerStep)) {
      const row = await options.demonstrations.at(place);
      checkRow(row, options.demonstrations, place);
      hasTools ||= (row.tools ?? []).length > 0;
      demonstrations.push(...demonstrationTokens(format, row.messages, row.tools ?? []));
      await setImmediate();
    }
    return { demonstrations, hasTools, sampler: sampler.state() };
  };
  try {
    if (resumed) {
      await trainer.load(resumed.path);
      samplerState = resumed.state['sampler'] as SamplerState;
      sampler.restore(samplerState);
    }
    let ahead: ReturnType<typeof prepare> | undefined;
    while (step < steps) {
      const { demonstrations, hasTools, sampler: drawn } = await (ahead ?? prepare());
      const share = learningRateShare({ shape: schedule, warmupSteps, totalSteps: steps, floor: 0 }, step);
      const updated = updateSupervised({
        trainer,
        demonstrations,
        adam: { ...adam, learningRate: adam.learningRate * share },
        tokensPerMicroBatch,
        ...(signal ? { signal } : {}),
        onProgress: ({ done, total }) =>
          options.onProgress?.({ step: step + 1, phase: 'training', done, total }),
      });
      if (step + 1 < steps) {
        ahead = prepare();
        ahead.catch(() => {}); // thrown by the next step
      }
      const metrics = await updated;
      step++;
      samplerState = drawn;
      const line = { step, seconds: clock.now() / 1000, metrics };
      await room.during(`step ${step}`, () => appendMetrics(runDir, line));
      if (step === steps || (every > 0 && step % every === 0)) await checkpoint();
      const notice = step === 1 && hasTools ? untrainedTokensNotice(directory, format) : undefined;
      yield { step, steps, metrics, model, notices: notice === undefined ? [] : [notice] };
    }
    await writeRunEnd(runDir, { state: 'finished', step, seconds: clock.now() / 1000 });
  } catch (error) {
    await writeRunEnd(runDir, { state: 'failed', step, ...reasonOf(error) }).catch(() => {});
    throw error;
  } finally {
    if (step > checkpointed && !signal?.aborted) await checkpoint();
    await trainer.close();
  }
}

function checkRow(row: DemonstrationRow, dataset: Dataset<DemonstrationRow>, place: number): void {
  if (Array.isArray(row.messages) && row.messages.some((message) => message.role === 'assistant')) return;
  throw new DatasetError(
    `${dataset.name}, row ${dataset.indexAt(place)}: a demonstration has \`messages\`, at least one of them by the assistant`,
  );
}
