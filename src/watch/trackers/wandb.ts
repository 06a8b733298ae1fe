import { ConfigError } from '../../errors.ts';
import type { Tracker } from '../tracker.ts';
import { wandbOffline } from './wandb-offline.ts';
import { WANDB_URL, wandbOnline } from './wandb-online.ts';
import type { WandbRun } from './wandb-run.ts';

/** Which W&B project metrics go to, online or into files. */
export interface WandbOptions extends WandbRun {
  /** As WANDB_MODE: `online`, or `offline` for a folder that `wandb sync` uploads. */
  readonly mode?: string;
  /** URL of the server; if not given, WANDB_BASE_URL, or W&B's own. */
  readonly url?: string;
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

/** A run in Weights & Biases, with the environment variables that its own client reads. */
export function wandb({ environment = process.env, ...given }: WandbOptions): Tracker {
  const {
    WANDB_API_KEY: apiKey,
    WANDB_BASE_URL: baseUrl,
    WANDB_MODE: environmentMode,
    WANDB_DIR: directory,
    WANDB_ENTITY: entity,
    WANDB_RUN_GROUP: group,
    WANDB_NOTES: notes,
    WANDB_TAGS: tags,
    WANDB_RUN_ID: id,
  } = environment;
  const run: WandbRun = { entity, group, notes, tags: tags?.split(',').filter(Boolean), id, ...given };
  const mode = given.mode ?? environmentMode ?? 'online';
  if (mode === 'offline') return wandbOffline(run, directory || '.');
  if (mode !== 'online') {
    throw new ConfigError(
      `WANDB_MODE is ${JSON.stringify(mode)}; use online or offline, or take wandb out of the loggers`,
    );
  }
  if (!apiKey) {
    throw new ConfigError(
      'WANDB_API_KEY is not set; copy the key from https://wandb.ai/authorize, or set WANDB_MODE=offline',
    );
  }
  return wandbOnline(run, { url: (given.url ?? baseUrl ?? WANDB_URL).replace(/\/+$/, ''), apiKey });
}
