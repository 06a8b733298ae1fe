import { ConfigError } from '../errors.ts';
import { nearest } from '../lib/nearest.ts';
import type { Random } from '../lib/random.ts';
import { type Settings, type Values, valuesOf } from '../lib/setting.ts';
import type {
  Advantage,
  AdvantageEstimator,
  AdvantageNeeds,
  AdvantageOptions,
  CustomAdvantage,
} from './advantages/advantage.ts';
import type { AlgorithmSetting } from './algorithm-setting.ts';
import type { AnyAlgorithm } from './algorithms/define.ts';
import * as algorithms from './algorithms.ts';
import type { CustomLoss, Loss, LossInput, LossOptions, PolicyLoss } from './losses/loss.ts';

/** The parts of an algorithm: found by kind, with their settings filled in and checked. */

export const ALGORITHMS: readonly AnyAlgorithm[] = Object.values(algorithms);

const ADVANTAGES = new Map(ALGORITHMS.map(({ definition: { advantage } }) => [advantage.kind, advantage]));
export const LOSSES = new Map(ALGORITHMS.map(({ definition: { loss } }) => [loss.kind, loss]));

export interface OpenAdvantage {
  readonly needs: AdvantageNeeds;
  readonly estimate: AdvantageEstimator;
  check(run: AlgorithmSetting): string | undefined;
}

export function openAdvantage(options: AdvantageOptions): OpenAdvantage {
  if (isCustom(options)) {
    return { needs: options.needs ?? {}, estimate: options.estimate, check: () => undefined };
  }
  const { part, settings } = open<Advantage>('advantage', ADVANTAGES, options);
  return {
    needs: part.needs,
    estimate: (trajectories) => part.estimate(trajectories, settings),
    check: (run) => part.check?.(settings, run),
  };
}

export interface OpenLoss {
  readonly takesRatio: boolean;
  readonly silentWithoutAdvantage: boolean;
  readonly weighsWhole: boolean;
  readonly compute: PolicyLoss;
  readonly pick?: (inputs: readonly LossInput[], random: Random) => Uint8Array[];
  check(run: AlgorithmSetting): string | undefined;
}

export function openLoss(options: LossOptions): OpenLoss {
  if (isCustom(options)) {
    const { compute } = options;
    const shape = { takesRatio: true, silentWithoutAdvantage: false, weighsWhole: false };
    return { ...shape, compute, check: () => undefined };
  }
  const { part, settings } = open<Loss>('loss', LOSSES, options);
  const { takesRatio, silentWithoutAdvantage, weighsWhole = false, pick } = part;
  return {
    takesRatio,
    silentWithoutAdvantage,
    weighsWhole,
    compute: (input) => part.compute(input, settings),
    ...(pick ? { pick: (inputs, random) => pick(inputs, settings, random) } : {}),
    check: (run) => part.check?.(settings, run),
  };
}

/** Whether a part is code of a user's. */
export function isCustom<C extends CustomAdvantage | CustomLoss>(
  part: C | { readonly kind: string },
): part is C {
  return part.kind === 'custom';
}

function open<P extends { readonly kind: string; readonly settings: Settings }>(
  what: string,
  known: ReadonlyMap<string, P>,
  options: { readonly kind: string; readonly [setting: string]: unknown },
): { part: P; settings: Values<Settings> } {
  const { kind, ...given } = options;
  const part = known.get(kind);
  if (!part) {
    throw new ConfigError(
      `there is no ${what} of kind ${JSON.stringify(kind)}; did you mean ${JSON.stringify(nearest(kind, [...known.keys()]))}?`,
    );
  }
  return { part, settings: valuesOf(part.settings, given, `the ${what} ${kind}: `) };
}
