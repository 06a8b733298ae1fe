import { ConfigError } from '../../errors.ts';
import { number, type Setting, usualOf } from '../../lib/setting.ts';
import { groupOf, ownSettings } from '../../training/algorithm-settings.ts';
import { algorithmNamed, ownerOfLoss } from '../../training/described-algorithm.ts';
import { ALGORITHMS } from '../../training/parts.ts';
import { means, type ReadingContext, same, shown, type VerlRow } from '../row.ts';

/** What the algorithms' own files say about verl (`definition.verl`), as rows of the table. */

/** Values of algorithm.adv_estimator. */
export const ESTIMATORS: Readonly<Record<string, string>> = Object.fromEntries(
  ALGORITHMS.flatMap(({ definition: { name, verl } }) =>
    (verl?.estimators ?? []).map((estimator) => [estimator, name]),
  ),
);

/** Values of policy_loss.loss_mode, with the options that each sets. */
export const LOSS_MODES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = Object.fromEntries(
  ALGORITHMS.flatMap((made) =>
    Object.entries(made.definition.verl?.losses ?? {}).map(([mode, fixed]) => [
      mode,
      {
        'algorithm.loss': made.definition.loss.kind,
        ...Object.fromEntries(
          Object.entries(fixed).map(([setting, value]) => [`algorithm.${groupOf(made)}.${setting}`, value]),
        ),
      },
    ]),
  ),
);

/** Values of rollout_correction.loss_type, with our loss. */
export const LOSS_TYPES: Readonly<Record<string, string>> = Object.fromEntries(
  ALGORITHMS.flatMap(({ definition: { loss, verl } }) =>
    verl?.lossType === undefined ? [] : [[verl.lossType, loss.kind]],
  ),
);

/** The algorithm whose loss the options so far choose. */
export function chosenLoss({ option }: ReadingContext) {
  const loss = option('algorithm.loss');
  return typeof loss === 'string' ? ownerOfLoss(loss) : algorithmNamed(String(option('algorithm.name')));
}

/** Keys that only some losses give a meaning to: `common` is what the key sets for all others. */
export function keyOfLosses(key: string, common: string, samples: readonly [number, number]): VerlRow {
  const takers = ALGORITHMS.flatMap((made) =>
    Object.entries(made.definition.verl?.keys ?? {})
      .filter(([, name]) => name === key)
      .map(([setting]) => ({ made, path: `algorithm.${groupOf(made)}.${setting}` })),
  );
  return means(
    key,
    [common, ...takers.map(({ path }) => path)],
    number,
    samples,
    (value, context) => ({
      [takers.find(({ made }) => made === chosenLoss(context))?.path ?? common]: value,
    }),
    { late: true, note: takers.map(({ made, path }) => `with ${made.definition.title}: ${path}`).join('; ') },
  );
}

/** Keys that set one algorithm's own settings; those in `elsewhere` have rows with more thought. */
export function ownKeys(elsewhere: readonly string[]): VerlRow[] {
  return ALGORITHMS.flatMap((made) => {
    const settings = ownSettings(made);
    return Object.entries(made.definition.verl?.keys ?? {}).flatMap(([name, key]) => {
      const path = `algorithm.${groupOf(made)}.${name}`;
      const schema = settings[name];
      if (!schema) throw new Error(`${made.definition.name} has no setting ${name}, which ${key} would set`);
      if (typeof key !== 'string') return key.map((one, at) => endOfPair(one, path, at, schema));
      const usual = Number(usualOf(schema));
      return elsewhere.includes(key) ? [] : [same(key, path, [usual, usual * 2])];
    });
  });
}

/** One end of a setting that is a pair. */
function endOfPair(key: string, path: string, at: number, schema: Setting): VerlRow {
  const usual = usualOf(schema);
  if (!Array.isArray(usual)) throw new Error(`${path} is not a pair, but ${key} would set one end of it`);
  return means(
    key,
    path,
    number,
    [Number(usual[at]), Number(usual[at]) * 2],
    (value, { option }) => {
      const pair = option(path);
      if (!Array.isArray(pair)) throw new ConfigError(`${path} is ${shown(pair)}; use two numbers`);
      return { [path]: pair.with(at, value) };
    },
    { late: true, note: at === 0 ? 'the low end' : 'the high end' },
  );
}
