import type { Gateway } from '../gateway/gateway.ts';
import type { WeightUpdate } from '../inference/server.ts';
import type { Trainer } from '../training/trainer.ts';

/** New weights to every server. A trainer that moves them itself does so while requests are paused. */
export async function publishWeights(
  trainer: Trainer,
  server: Gateway,
  version: number,
): Promise<WeightUpdate> {
  if (trainer.publishes === 'pushed') return server.updateWhile(() => trainer.publish(version));
  const weights = await trainer.publish(version);
  await server.update(weights);
  return weights;
}
