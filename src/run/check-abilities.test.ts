import { expect, test } from 'vitest';
import { arrayDataset } from '../dataset/dataset.ts';
import type { ServerAbility } from '../inference/server.ts';
import { asynchronous, synchronous } from '../modes/mode.ts';
import type { Trainer } from '../training/trainer.ts';
import { taskRow } from '../verl/task-row.ts';
import { checkAbilities, imagesReadBy } from './check-abilities.ts';

type Abilities = Trainer['can'] extends ReadonlySet<infer A> ? A : never;

const trainerThat = (publishes: Trainer['publishes'], ...can: readonly Abilities[]) => ({
  publishes,
  can: new Set(can),
});
const server = (engine: string, ...can: readonly ServerAbility[]) => ({ engine, can: new Set(can) });
const texts = arrayDataset<object>([{ prompt: [{ role: 'user', content: 'Hello' }] }], 'texts');
const picture = { bytes: Uint8Array.of(1, 2, 3) };
const pictures = arrayDataset<object>(
  [
    taskRow({ prompt: [{ role: 'user', content: 'Hello' }] }),
    taskRow({ prompt: [{ role: 'user', content: 'What is <image>?' }], images: [picture] }),
  ],
  'pictures',
);

/** A run that nothing is wrong with, but for what is given. */
const check = (more: Partial<Parameters<typeof checkAbilities<object>>[0]>) =>
  checkAbilities<object>({
    trainer: trainerThat('disk'),
    servers: [server('sglang', 'disk'), server('vllm', 'disk', 'lora', 'images', 'pauseKeep', 'sleep')],
    factory: {},
    mode: synchronous(),
    clipNorm: 1,
    tasks: texts,
    ...more,
  });

test('a run whose servers take what its trainer publishes is accepted', async () => {
  await check({});
});

test('weights that a server does not take are refused with those that it takes', async () => {
  await expect(check({ trainer: trainerThat('collective') })).rejects.toThrow(
    'the trainer publishes weights by collective, but a server of sglang takes them by disk',
  );
  await expect(check({ trainer: trainerThat('lora', 'lora') })).rejects.toThrow(
    'the trainer publishes weights by lora, but a server of sglang takes them by disk',
  );
  await expect(check({ factory: { disk: { send: 'adapter' } } })).rejects.toThrow(
    "send is 'adapter', but the trainer trains none; give it lora",
  );
});

test('gradients are not clipped, and nothing is sampled meanwhile, where a service cannot', async () => {
  const trainer = { ...trainerThat('disk'), clips: false };
  await expect(check({ trainer })).rejects.toThrow(
    "optimizer.clipNorm is 1, but this trainer's server does not clip gradients; set it to 0",
  );
  await check({ trainer, clipNorm: 0 });
  const factory = { sharesTrainedWeights: true };
  await expect(check({ factory, mode: asynchronous() })).rejects.toThrow(
    'samples while it trains, but these servers sample with the weights that are being trained',
  );
  await check({ factory });
});

test('sleeping and freezing are refused where a server cannot, and sleeping where it would be asked meanwhile', async () => {
  await expect(check({ factory: { gateway: { whileUpdating: 'keep' } } })).rejects.toThrow(
    "whileUpdating is 'keep', but a server of sglang cannot freeze requests",
  );
  const factory = { sleepWhileTraining: true };
  await expect(check({ factory })).rejects.toThrow('a server of sglang cannot sleep');
  const servers = [server('vllm', 'disk', 'sleep')];
  await expect(check({ factory, servers, mode: asynchronous() })).rejects.toThrow(
    'mode asynchronous samples while it trains',
  );
  await check({ factory, servers });
});

test('images in the data are refused where the trainer or a server cannot read them', async () => {
  const seeing = [server('vllm', 'disk', 'images')];
  await expect(check({ tasks: pictures, servers: seeing })).rejects.toThrow(
    'pictures, row 1: the prompt shows an image, which the trainer cannot read',
  );
  const trainer = trainerThat('disk', 'images');
  await expect(check({ tasks: pictures, trainer })).rejects.toThrow(
    'pictures, row 1: the prompt shows an image, which a server of sglang cannot read',
  );
  await check({ tasks: pictures, trainer, servers: seeing });
});

test('an image that an agent shows is refused at once where it would not be read', async () => {
  const kept = { blob: 'b', mime: 'image/png', width: 1, height: 1, tokens: 1 } as const;
  const images = { put: async () => kept, read: async () => Uint8Array.of() };
  const blind = imagesReadBy(images, trainerThat('disk'), []);
  await expect(blind.put(picture)).rejects.toThrow('shows an image, which the trainer cannot read');
  expect(imagesReadBy(images, trainerThat('disk', 'images'), [])).toBe(images);
});
