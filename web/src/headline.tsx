import type { MetricsView, RunSummary } from '../../src/watch/dashboard/api.ts';
import { duration, short } from './numbers.ts';
import { href } from './route.ts';

/** A wait of this long is shown without being asked for. */
const STUCK_SECONDS = 60;

/** What came of the run, in a sentence and two numbers. */
export function Headline({ run, view }: { readonly run: RunSummary; readonly view: MetricsView }) {
  const validation = validationOf(view);
  const steps = run.plannedSteps === null ? `${run.step ?? 0}` : `${run.step ?? 0} of ${run.plannedSteps}`;
  return (
    <section className="headline" aria-label="In short">
      <Change label="Reward" values={valuesOf(view, 'critic/score/mean')} />
      <Change label="Validation" values={valuesOf(view, validation)} />
      <p className="quiet">
        <span className={`state ${run.state}`}>
          <i aria-hidden="true" /> {run.state}
        </span>{' '}
        · {steps} steps · {duration(run.seconds)}
        {run.algorithm && ` · ${run.algorithm}`}
        {run.agent && ` · ${run.agent}`}
        {view.recorded.length > 0 && (
          <>
            {' '}
            ·{' '}
            <a href={href('step', { run: run.id, step: view.recorded.at(-1) })}>
              step {view.recorded.at(-1)}
            </a>
          </>
        )}
      </p>
    </section>
  );
}

function Change({ label, values }: { readonly label: string; readonly values: readonly number[] }) {
  if (values.length === 0) return null;
  const [first, last] = [values[0]!, values.at(-1)!];
  return (
    <p className="change">
      <span className="quiet">{label}</span>{' '}
      <b>
        {values.length > 1 && `${short(first)} → `}
        {short(last)}
      </b>
    </p>
  );
}

/** Why a run ended before its end, and what a live one is doing. */
export function RunNow({ run, named }: { readonly run: RunSummary; readonly named: boolean }) {
  const { doing, reason, state } = run;
  const isBad = state === 'failed' || state === 'killed';
  if (reason === null && (state !== 'live' || doing === null)) return null;
  const longest = Math.max(0, ...(doing?.waits ?? []).map(({ oldest }) => oldest.seconds));
  return (
    <section className={`card now${isBad ? ' trouble' : ''}`} aria-label={`State of ${run.name}`}>
      {reason !== null && (
        <p>
          <b>
            {named && `${run.name} `}
            {state}:
          </b>{' '}
          {reason} <a href={href('failures', { run: run.id })}>failures</a>
        </p>
      )}
      {state === 'live' && doing && (
        <details open={longest > STUCK_SECONDS}>
          <summary>
            {named && `${run.name}: `}
            {doing.lines[0]}
            {longest > STUCK_SECONDS && <span className="tag warn">has waited {duration(longest)}</span>}
          </summary>
          <pre className="lines">{doing.lines.slice(1).join('\n') || 'It waits for nothing.'}</pre>
        </details>
      )}
    </section>
  );
}

export const validationOf = ({ series }: MetricsView) =>
  Object.keys(series).find((name) => /^val-core\/.*mean@/.test(name));

export const valuesOf = ({ series }: MetricsView, name: string | undefined): number[] =>
  (name === undefined ? [] : (series[name] ?? [])).filter((value) => value !== null);
