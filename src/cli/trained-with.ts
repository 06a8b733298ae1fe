import { existsSync } from 'node:fs';
import type { Tool } from '../agent/tool.ts';
import { ConfigError } from '../errors.ts';
import { type ResolvedOptions, resolveOptions } from '../options.ts';
import { runPaths } from '../watch/run-directory.ts';
import { listSteps, readStepIndex, readTrajectory } from '../watch/trajectory-store.ts';
import type { GivenWords } from './given-run.ts';
import { modelOf, openRunOf, readOrigin } from './recorded-run.ts';

interface TrainedWith {
  /** That the run starts from; of a model directory itself. */
  readonly model: string;
  readonly tools: readonly Tool[];
  readonly chat?: ResolvedOptions['chat'];
  close(): Promise<void>;
}

/** The tools and the chat format of the run file; a model directory has neither. Without a run, words describe one. */
export async function trainedWith(run: string | undefined, words: GivenWords): Promise<TrainedWith> {
  const isRun = run !== undefined && existsSync(runPaths(run).options);
  const isBare = run !== undefined && (!isRun || (await readOrigin(run)).config === null);
  if (words.file === undefined && isBare) {
    if (isRun) await refuseWithoutTools(run, []);
    return { model: run, tools: [], close: async () => {} };
  }
  const { options, close } = await openRunOf(run, words);
  const { agent: trained, chat, model } = resolveOptions(options);
  if (isRun) await refuseWithoutTools(run, trained.tools);
  return { model, tools: trained.tools, ...(chat ? { chat } : {}), close };
}

/** Trajectories that are looked at for the tools that the model was offered. */
const LOOKED_AT = 16;

/** A framework's agent runs its tools itself. The model would call them here, and nothing would answer. */
async function refuseWithoutTools(run: string, tools: readonly Tool[]): Promise<void> {
  const step = (await listSteps(run)).at(-1);
  if (step === undefined) return;
  const offered = new Set<string>();
  for (const entry of (await readStepIndex(run, step)).trajectories.slice(0, LOOKED_AT)) {
    const { trajectory } = await readTrajectory(run, step, entry);
    for (const name of trajectory.chats.flatMap((chat) => chat.tools)) offered.add(name);
  }
  const missing = [...offered].filter((name) => tools.every((tool) => tool.name !== name));
  if (missing.length === 0) return;
  const model = await modelOf(run);
  throw new ConfigError(
    `the agent of ${run} runs its tools itself (${missing.join(', ')}), and a chat cannot offer them; see the agent at work with rollcall fork or preview, or talk to the bare model: rollcall chat ${model}`,
  );
}
