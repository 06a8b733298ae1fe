import { memo } from 'react';
import type { MetricsView } from '../../src/watch/dashboard/api.ts';
import { api, useApi } from './data.ts';
import { useKeys } from './keys.ts';
import { change } from './route.ts';

const NONE: readonly number[] = [];

/** Steps of a run with trajectories on disk; the one in the address, or the newest. */
export function useSteps(
  run: string,
  wanted: number | undefined,
): { steps: readonly number[]; step: number | undefined } {
  const { data } = useApi<MetricsView>(api.metrics(run));
  const steps = data?.recorded ?? NONE;
  return { steps, step: wanted ?? steps.at(-1) };
}

/** Up to this many steps can be chosen from a list; with more, a number is typed. */
const LISTED = 200;

export const StepPicker = memo(function StepPicker({
  steps,
  step,
  keys = true,
}: {
  steps: readonly number[];
  step: number;
  keys?: boolean;
}) {
  const at = steps.indexOf(step);
  const move = (by: number) => {
    const next = steps[at + by];
    if (next !== undefined) change({ step: next, position: undefined });
  };
  useKeys(keys ? { ArrowLeft: () => move(-1), ArrowRight: () => move(1) } : {});
  return (
    <span className="row picker">
      <button
        type="button"
        onClick={() => move(-1)}
        disabled={at <= 0}
        aria-label="Step before"
        title="Step before (←)"
      >
        ←
      </button>
      <span>Step</span>
      {steps.length > LISTED ? (
        <input
          type="number"
          aria-label="Step"
          key={step}
          defaultValue={step}
          min={steps[0]}
          max={steps.at(-1)}
          onChange={(event) => {
            if (steps.includes(Number(event.target.value)))
              change({ step: event.target.value, position: undefined });
          }}
        />
      ) : (
        <select
          aria-label="Step"
          value={step}
          onChange={(event) => change({ step: event.target.value, position: undefined })}
        >
          {!steps.includes(step) && <option value={step}>{step}</option>}
          {steps.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      )}
      <button
        type="button"
        onClick={() => move(1)}
        disabled={at < 0 || at >= steps.length - 1}
        aria-label="Step after"
        title="Step after (→)"
      >
        →
      </button>
    </span>
  );
});

export function Notice({ error, what }: { readonly error: string | undefined; readonly what: string }) {
  return error === undefined ? (
    <p className="quiet">Loading {what}…</p>
  ) : (
    <p className="error" role="alert">
      {error}
    </p>
  );
}
