/**
 * Simulated users from YAML, as verl's examples write them:
 *
 *   interaction:
 *     - name: gsm8k                                                       # or from the class: Gsm8kInteraction
 *       class_name: "verl.interactions.gsm8k_interaction.Gsm8kInteraction"  # one of ours, or path.ts#Export
 *       config: {}
 */

import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { humanInteractionOf } from '../agent/interactions/human.ts';
import type { Interaction, InteractionKwargs } from '../agent/interactions/interaction.ts';
import {
  gsm8kInteraction,
  llmInteractionOf,
  scriptedInteraction,
} from '../agent/interactions/ready-interactions.ts';
import { ConfigError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import { loadExport } from '../lib/load-export.ts';
import { nearest } from '../lib/nearest.ts';
import { type ClassInteraction, classInteraction } from './class-interaction.ts';

const entrySchema = z.strictObject({
  name: z.string().nullish(),
  class_name: z.string(),
  config: z.record(z.string(), z.unknown()).nullish(),
});

type MakeInteraction = (config: InteractionKwargs, name: string, directory: string) => Interaction;

/** Ready users by the last part of their Python class path. */
const BY_CLASS: Readonly<Record<string, MakeInteraction>> = {
  Gsm8kInteraction: (_, name) => gsm8kInteraction(name),
  ScriptedInteraction: ({ answers, until }, name) =>
    scriptedInteraction({
      name,
      ...(Array.isArray(answers) && { answers: answers.map(String) }),
      ...(typeof until === 'string' && { until: new RegExp(until) }),
    }),
  LlmInteraction: llmInteractionOf,
  HumanInteraction: humanInteractionOf,
};

/** Simulated users by name. */
export type Interactions = Readonly<Record<string, Interaction>>;

/** The users that a YAML file in verl's form describes. */
export async function loadInteractionFile(path: string): Promise<Interactions> {
  let content: unknown;
  try {
    content = parse(await readFile(path, 'utf8'));
  } catch (cause) {
    const why = messageOf(cause);
    throw new ConfigError(`interaction file ${path} cannot be read: ${why}`, { cause });
  }
  const list = (content as { interaction?: unknown } | null)?.interaction;
  if (!Array.isArray(list))
    throw new ConfigError(`interaction file ${path} has no list under \`interaction:\``);
  const directory = dirname(resolve(path));
  const found: Record<string, Interaction> = {};
  for (const [index, entry] of list.entries()) {
    const where = `${path}, interaction[${index}]`;
    const made = await fromEntry(entry, where, directory);
    if (Object.hasOwn(found, made.name)) {
      throw new ConfigError(`${where}: Duplicate interaction name '${made.name}' found; names must differ`);
    }
    found[made.name] = made;
  }
  return found;
}

async function fromEntry(entry: unknown, where: string, directory: string): Promise<Interaction> {
  const read = entrySchema.safeParse(entry);
  if (!read.success) {
    throw new ConfigError(`${where} cannot be read: ${z.prettifyError(read.error).replace(/\s+/g, ' ')}`);
  }
  const { class_name: className, config } = read.data;
  const last = className.split(/[.#]/).at(-1)!;
  const name = read.data.name ?? last.replace(/Interaction$/, '').toLowerCase();
  const given = { ...config, name };
  if (className.includes('#'))
    return fromExport(await loadExport(className, directory, where), given, name, where);
  if (Object.hasOwn(BY_CLASS, last)) return BY_CLASS[last]!(given, name, directory);
  throw new ConfigError(
    `${where}: class_name '${className}' is a Python class that has no counterpart here. Write it in TypeScript and name ` +
      `it \`path.ts#Export\`, the path relative to ${directory}; ready are ${Object.keys(BY_CLASS).join(', ')}`,
  );
}

function fromExport(exported: unknown, config: InteractionKwargs, name: string, where: string): Interaction {
  if ((exported as Interaction | undefined)?.kind === 'interaction')
    return { ...(exported as Interaction), name };
  if (typeof exported === 'function' && /^class\b/.test(Function.prototype.toString.call(exported))) {
    const instance = new (exported as new (config: InteractionKwargs) => ClassInteraction)(config);
    if (typeof instance.generateResponse === 'function') return classInteraction(name, instance);
  }
  throw new ConfigError(
    `${where}: the export is neither made by interaction() nor a class with generateResponse(id, messages, kwargs)`,
  );
}

/** The one a row asks for (`interaction_kwargs.name`); rows without `interaction_kwargs` have no user. */
export function interactionOf(
  interactions: Interactions,
  kwargs: InteractionKwargs | undefined,
): { readonly interaction: Interaction; readonly kwargs: InteractionKwargs } | undefined {
  const names = Object.keys(interactions);
  if (kwargs === undefined) return undefined;
  if (names.length === 0) {
    if (typeof kwargs.name !== 'string') return undefined;
    throw new ConfigError(
      `the row asks for the simulated user '${kwargs.name}', but the run has none; give users.file ` +
        '(verl: actor_rollout_ref.rollout.multi_turn.interaction_config_path)',
    );
  }
  const name = kwargs.name ?? (names.length === 1 ? names[0] : undefined);
  if (typeof name !== 'string') {
    throw new ConfigError(
      `'name' key is required in interaction_kwargs where there are several simulated users: ${names.join(', ')}`,
    );
  }
  if (Object.hasOwn(interactions, name)) return { interaction: interactions[name]!, kwargs };
  throw new ConfigError(
    `there is no simulated user '${name}'; did you mean ${nearest(name, names)}? Available: ${names.join(', ')}`,
  );
}
