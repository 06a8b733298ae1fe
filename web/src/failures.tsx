import { messageShape } from '../../src/lib/activity.ts';
import type { FailureRow, MetricsView, RunSummary, StepFailures } from '../../src/watch/dashboard/api.ts';
import { adviceFor } from '../../src/watch/failure-advice.ts';
import type { ViewProps } from './app.tsx';
import { api, useApi } from './data.ts';
import { change, href, useRoute } from './route.ts';
import { Notice } from './step-picker.tsx';

interface Kind {
  readonly name: string;
  readonly label: string;
  readonly counts: readonly number[];
}

/** Cases of a group that are shown before the rest is asked for. */
const SHOWN = 3;
const SOURCE_LENGTH = 300;

/** What went wrong, by kind and step; a step's cases with links into their trajectories. */
export function Failures({ run }: ViewProps) {
  const route = useRoute();
  const { data, error } = useApi<MetricsView>(api.metrics(run.id));
  const kinds = data ? kindsOf(data) : [];
  const chosen = route.get('kind');
  const busiest = data
    ? busiestStep(
        data,
        kinds.filter(({ name }) => chosen === undefined || name === chosen),
      )
    : undefined;
  const step = route.number('step') ?? busiest;
  const listed = useApi<StepFailures>(
    step === undefined || !data?.recorded.includes(step) ? undefined : api.failures(run.id, step),
  );
  const rows = listed.data?.failures.filter(({ kind }) => chosen === undefined || kind === chosen) ?? [];
  if (!data) return <Notice error={error} what="failures" />;
  return (
    <>
      <Death run={run} />
      {kinds.length === 0 && data.steps.length > 0 && run.reason === null && (
        <p className="quiet">Nothing has gone wrong: every attempt completed and every tool call ran.</p>
      )}
      {kinds.length > 0 && (
        <div className="scroll">
          <table className="kinds">
            <caption className="hidden">Failures by kind</caption>
            <thead>
              <tr>
                <th scope="col">Kind</th>
                <th scope="col">In all</th>
                <th scope="col">By step (click one)</th>
              </tr>
            </thead>
            <tbody>
              <tr className={chosen === undefined ? 'current' : ''}>
                <th scope="row">
                  <button type="button" className="plain" onClick={() => change({ kind: undefined })}>
                    every kind
                  </button>
                </th>
                <td>{kinds.reduce((sum, { counts }) => sum + total(counts), 0)}</td>
                <td />
              </tr>
              {kinds.map((kind) => (
                <tr key={kind.name} className={kind.name === chosen ? 'current' : ''}>
                  <th scope="row">
                    <button
                      type="button"
                      className="plain"
                      onClick={() => change({ kind: kind.name, step: undefined })}
                    >
                      {kind.label}
                    </button>
                  </th>
                  <td>{total(kind.counts)}</td>
                  <td>
                    <Bars kind={kind} steps={data.steps} step={step} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {step !== undefined && (
        <section aria-label={`Failures of step ${step}`}>
          <h2>
            Step {step} <span className="quiet">{listed.data ? `${rows.length} cases` : ''}</span>{' '}
            <a href={href('step', { run: run.id, step })}>all its attempts</a>
          </h2>
          {!listed.data && <Notice error={listed.error} what="cases" />}
          {alike(rows).map((group) => (
            <Cases
              key={`${group[0]!.kind} ${messageShape(group[0]!.message)}`}
              rows={group}
              run={run.id}
              step={step}
            />
          ))}
        </section>
      )}
    </>
  );
}

/** Why the run ended before its end, and which attempts of its last step failed: no finished step has these. */
function Death({ run }: { readonly run: RunSummary }) {
  if (run.reason === null) return null;
  const failures = run.doing?.failures ?? [];
  return (
    <section className="card now trouble" aria-label="How the run ended">
      <p>
        <b>
          The run {run.state === 'stopped' ? 'was stopped' : run.state === 'killed' ? 'was killed' : 'failed'}
        </b>
        {run.doing && ` in step ${run.doing.step}`}: {run.reason}
      </p>
      {failures.map(({ boundary, message, trajectory, count }) => {
        const { cause, suggestion } = adviceFor({ boundary, message });
        return (
          <p key={`${boundary} ${message}`}>
            <span className="tag bad">{boundary}</span> <b>{cause}</b>, {count} attempt
            {count === 1 ? '' : 's'}: {message} <span className="quiet">(for example {trajectory})</span>
            <br />
            <span className="quiet">What helps: {suggestion}.</span>
          </p>
        );
      })}
    </section>
  );
}

/** Cases of one kind whose messages differ only in numbers and quoted texts, the largest group first. */
function alike(rows: readonly FailureRow[]): FailureRow[][] {
  const groups = new Map<string, FailureRow[]>();
  for (const row of rows) {
    const key = `${row.kind} ${messageShape(row.message)}`;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.values()].sort((one, other) => other.length - one.length);
}

function Cases({ rows, run, step }: { rows: readonly FailureRow[]; run: string; step: number }) {
  const { kind, message, cause, suggestion } = rows[0]!;
  const item = (row: FailureRow, at: number) => (
    <li key={at}>
      <a href={href('trajectory', { run, step, position: row.position })}>
        task {row.taskIndex}, attempt {row.attempt}
      </a>
      {row.turn !== null && <span className="quiet">turn {row.turn}</span>}
      {row.source !== '' && <code className="case">{row.source.slice(0, SOURCE_LENGTH)}</code>}
      {row.source === '' && row.message !== message && <span className="case">{row.message}</span>}
    </li>
  );
  return (
    <section className="card cases-card">
      <p>
        <b>{rows.length} ×</b>{' '}
        <span className="tag bad">{kind.replace(/^(ends|tools\/problems)\//, '')}</span>{' '}
        {cause !== null && <b>{cause}: </b>}
        {message}
      </p>
      {suggestion !== null && <p className="quiet">What helps: {suggestion}.</p>}
      <ul className="cases">{rows.slice(0, SHOWN).map(item)}</ul>
      {rows.length > SHOWN && (
        <details>
          <summary>{rows.length - SHOWN} more</summary>
          <ul className="cases">{rows.slice(SHOWN).map(item)}</ul>
        </details>
      )}
    </section>
  );
}

function Bars({
  kind,
  steps,
  step,
}: {
  readonly kind: Kind;
  readonly steps: readonly number[];
  readonly step: number | undefined;
}) {
  const most = Math.max(1, ...kind.counts);
  const width = Math.max(2, Math.min(14, Math.floor(560 / steps.length)));
  return (
    <svg
      width={steps.length * width}
      height="30"
      viewBox={`0 0 ${steps.length * width} 30`}
      preserveAspectRatio="none"
      role="group"
      aria-label={`${kind.label} by step`}
    >
      {steps.map((one, at) => {
        const count = kind.counts[at] ?? 0;
        const height = count === 0 ? 1 : 3 + (27 * count) / most;
        return (
          <rect
            key={one}
            x={at * width}
            y={30 - height}
            width={width - 1}
            height={height}
            className={one === step ? 'bar-current' : 'bar-count'}
            role="button"
            tabIndex={count > 0 ? 0 : -1}
            aria-label={`step ${one}: ${count}`}
            onClick={() => change({ kind: kind.name, step: one })}
            onKeyDown={(event) => event.key === 'Enter' && change({ kind: kind.name, step: one })}
          >
            <title>{`step ${one}: ${count}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}

/** From the metrics: every end but `completed`, and every mistake of the model. */
function kindsOf({ series }: MetricsView): Kind[] {
  const kinds: Kind[] = [];
  for (const [name, values] of Object.entries(series)) {
    const label = /^(?:ends|tools\/problems)\/(.+)$/.exec(name)?.[1];
    if (label === undefined || label === 'completed') continue;
    kinds.push({ name, label, counts: values.map((value) => value ?? 0) });
  }
  return kinds.sort((a, b) => total(b.counts) - total(a.counts));
}

const total = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);

function busiestStep({ steps, recorded }: MetricsView, kinds: readonly Kind[]): number | undefined {
  const sums = steps.map((step, at) =>
    recorded.includes(step) ? total(kinds.map(({ counts }) => counts[at] ?? 0)) : -1,
  );
  const most = Math.max(-1, ...sums);
  return most <= 0 ? recorded.at(-1) : steps[sums.indexOf(most)];
}
