/** What trainer and servers must be able to do for a run, checked before its first step. */
import type { Dataset } from '../dataset/dataset.ts';
import { ConfigError } from '../errors.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import type { ServerAbility, ServerInfo } from '../inference/server.ts';
import { isOffPolicy, type Mode } from '../modes/mode.ts';
import type { ImageBlobs } from '../services/image-blobs.ts';
import type { Trainer } from '../training/trainer.ts';

interface Asked<T> {
  /** As it publishes to these servers. */
  readonly trainer: Pick<Trainer, 'can' | 'publishes' | 'clips'>;
  readonly servers: readonly Pick<ServerInfo, 'engine' | 'can'>[];
  readonly factory: Pick<ServerFactory, 'gateway' | 'disk' | 'sleepWhileTraining' | 'sharesTrainedWeights'>;
  readonly mode: Mode;
  /** The gradient's norm at which it is clipped; 0 is off. */
  readonly clipNorm: number;
  readonly tasks: Pick<Dataset<T>, 'name' | 'take'>;
}

/** Rows that are looked at for images; a dataset that has them has them early. */
const LOOKED_AT = 100;

/** Throws where something is asked of the trainer or a server that it cannot do. */
export async function checkAbilities<T>(asked: Asked<T>): Promise<void> {
  checkWeights(asked);
  checkSteps(asked);
  checkPauses(asked);
  await checkImages(asked);
}

function checkWeights<T>({ trainer, servers, factory }: Asked<T>): void {
  const { publishes, can } = trainer;
  if (factory.disk?.send === 'adapter' && !can.has('lora')) {
    throw new ConfigError(
      "send is 'adapter', but the trainer trains none; give it lora, such as embedded({ lora: { rank: 16, alpha: 32 } }).trainer",
    );
  }
  const { unable, takes } = lacking(servers, publishes);
  if (unable === undefined) return;
  throw new ConfigError(
    `the trainer publishes weights by ${publishes}, but a server of ${unable} takes them by ${takes.join(', ') || 'nothing'}`,
  );
}

function checkSteps<T>({ trainer, factory, mode, clipNorm }: Asked<T>): void {
  if (trainer.clips === false && clipNorm > 0) {
    throw new ConfigError(
      `optimizer.clipNorm is ${clipNorm}, but this trainer's server does not clip gradients; set it to 0`,
    );
  }
  if (factory.sharesTrainedWeights && isOffPolicy(mode)) {
    throw new ConfigError(
      `mode ${mode.kind} samples while it trains, but these servers sample with the weights that are being trained; use the synchronous mode`,
    );
  }
}

const WEIGHT_KINDS: readonly ServerAbility[] = ['memory', 'disk', 'lora', 'collective', 'pushed'];

function lacking(servers: Asked<unknown>['servers'], ability: ServerAbility) {
  const server = servers.find(({ can }) => !can.has(ability));
  return { unable: server?.engine, takes: WEIGHT_KINDS.filter((kind) => server?.can.has(kind)) };
}

function checkPauses<T>({ servers, factory, mode }: Asked<T>): void {
  const frozen = lacking(servers, 'pauseKeep').unable;
  if (factory.gateway?.whileUpdating === 'keep' && frozen !== undefined) {
    throw new ConfigError(
      `whileUpdating is 'keep', but a server of ${frozen} cannot freeze requests; use 'wait' or 'abort'`,
    );
  }
  if (!factory.sleepWhileTraining) return;
  const awake = lacking(servers, 'sleep').unable;
  if (awake !== undefined) {
    throw new ConfigError(
      `sleepWhileTraining is on, but a server of ${awake} cannot sleep; start SGLang with --enable-memory-saver, vLLM with --enable-sleep-mode`,
    );
  }
  if (isOffPolicy(mode)) {
    throw new ConfigError(
      `sleepWhileTraining is on, but mode ${mode.kind} samples while it trains; use the synchronous mode`,
    );
  }
}

async function checkImages<T>({ trainer, servers, tasks }: Asked<T>): Promise<void> {
  const blind = blindPart(trainer, servers);
  if (blind === undefined) return;
  for await (const { index, row } of tasks.take(LOOKED_AT).rows()) {
    if (hasImage(row)) throw unread(`${tasks.name}, row ${index}: the prompt`, blind);
  }
}

/** What agents and tools keep images with: where they would not be read, the first one is refused. */
export function imagesReadBy(
  images: ImageBlobs,
  trainer: Pick<Trainer, 'can'>,
  servers: Asked<unknown>['servers'],
): ImageBlobs {
  const blind = blindPart(trainer, servers);
  if (blind === undefined) return images;
  return { ...images, put: () => Promise.reject(unread('the agent or a tool', blind)) };
}

function blindPart(trainer: Pick<Trainer, 'can'>, servers: Asked<unknown>['servers']): string | undefined {
  if (!trainer.can.has('images')) return 'the trainer';
  const { unable } = lacking(servers, 'images');
  return unable === undefined ? undefined : `a server of ${unable}`;
}

const unread = (who: string, blind: string) =>
  new ConfigError(
    `${who} shows an image, which ${blind} cannot read; use a model, servers and a trainer that read images`,
  );

/** Whether a row's prompt, in the form of chat messages, shows an image. */
function hasImage(row: unknown): boolean {
  const { prompt } = (row ?? {}) as { prompt?: unknown };
  if (!Array.isArray(prompt)) return false;
  return prompt.some(({ content }: { content?: unknown }) =>
    Array.isArray(content) ? content.some((part: { type?: unknown }) => part.type === 'image') : false,
  );
}
