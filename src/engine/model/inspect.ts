import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readModelConfig, readWeightPrecisions } from './files.ts';
import { activationBytes, adapterRunBytes, trainerBytes } from './memory.ts';
import { countParameters } from './weights.ts';

/** What a person wants to know about a model folder; its weights are checked by name and shape, not read. */
export function inspectModel(directory: string): Record<string, string | number | boolean> {
  const config = readModelConfig(directory);
  const megabytes = (bytes: number) => Math.round(bytes / 1e6);
  return {
    family: config.family,
    parameters: countParameters(config),
    precision: readWeightPrecisions(directory, config).join(', '),
    vocabulary: config.vocabulary,
    hidden: config.hidden,
    layers: config.layers,
    heads: config.heads,
    kvHeads: config.kvHeads,
    headSize: config.headSize,
    intermediate: config.intermediate,
    contextTokens: config.contextTokens,
    ropeBase: config.ropeBase,
    ...(config.local
      ? { window: config.local.window, windowLayers: config.local.layers.filter(Boolean).length }
      : {}),
    ...(config.attentionCap ? { attentionCap: config.attentionCap } : {}),
    ...(config.logitCap ? { logitCap: config.logitCap } : {}),
    tied: config.tied,
    tokenizer: existsSync(join(directory, 'tokenizer.json')),
    trainingMegabytes: megabytes(trainerBytes(config, 'all')),
    adapterRunMegabytes: megabytes(adapterRunBytes(config, { weights: 'bfloat16', rank: 16 })),
    kilobytesPerTrainedToken: Math.round(activationBytes(config, false) / 1e3),
  };
}
