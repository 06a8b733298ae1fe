/** What is not finite in an update: it is named, set aside, and left out or told to the run, as the run wishes. */
import { TrainerError } from '../errors.ts';
import type { Batch } from './batch.ts';
import { setAside } from './batch-file.ts';
import { NonFiniteError } from './guard.ts';
import type { GuardOptions, ResolvedUpdate, UpdateResult } from './update-options.ts';

/** Saves the batch; then throws, or reports what was skipped. */
export async function skipOrStop(
  options: ResolvedUpdate,
  error: NonFiniteError,
): Promise<NonNullable<UpdateResult['skipped']>> {
  const { directory, onNonFinite } = options.guard ?? { onNonFinite: 'stop' };
  const file = directory === undefined ? undefined : await setAside(directory, options, error);
  const reason =
    file === undefined
      ? error.message
      : `${error.message}; the batch is in ${file}, run it again with: rollcall replay ${file}`;
  if (onNonFinite === 'stop') throw new TrainerError(reason, { cause: error });
  return { reason, weightsBroken: error.weightsBroken, ...(file === undefined ? {} : { file }) };
}

/** One such batch may be bad luck; after a second in a row the weights are taken to be broken. */
export function brokenGradient(
  updates: number,
  brokenBatches: number,
  { step }: Batch,
  guard: GuardOptions | undefined,
): NonFiniteError {
  const weightsBroken = brokenBatches > 1;
  const where = `${guard?.run === undefined ? '' : `run ${guard.run}, `}step ${step}`;
  return new NonFiniteError(
    `${where}: the gradient of ${updates} updates was not finite, though every log-prob was${weightsBroken ? '; so it was in the batch before, so the weights are broken: load the last checkpoint' : ''}`,
    { weightsBroken },
  );
}

/** At most this many attempts are named in one sentence. */
const NAMED = 3;

/** Attempts that got no finite reward are not in the batch; they are named, or stop the run. */
export function badRewards({ leftOut, step }: Batch, { run, onNonFinite }: GuardOptions): string | undefined {
  const bad = leftOut.filter(({ why }) => why === 'reward-not-finite' || why === 'reward-failed');
  if (bad.length === 0) return undefined;
  const names = bad.slice(0, NAMED).map(({ id, message }) => `trajectory ${id} (${message})`);
  const more = bad.length > NAMED ? ` and ${bad.length - NAMED} more` : '';
  const said = `${run === undefined ? '' : `run ${run}, `}step ${step}: no finite reward for ${names.join(', ')}${more}`;
  if (onNonFinite === 'stop') throw new NonFiniteError(said, { weightsBroken: false });
  const [{ taskIndex, attempt }] = bad as [(typeof bad)[number]];
  const look =
    run === undefined
      ? ''
      : `; it is kept: rollcall show ${run} ${step} --task ${taskIndex} --attempt ${attempt}`;
  return `${said}; left out of its group${look}`;
}
