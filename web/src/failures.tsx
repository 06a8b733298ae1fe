import type { MetricsView, StepFailures } from '../../src/watch/dashboard/api.ts';
import type { ViewProps } from './app.tsx';
import { api, useApi } from './data.ts';
import { change, href, useRoute } from './route.ts';
import { Notice } from './step-picker.tsx';

interface Kind {
  readonly name: string;
  readonly label: string;
  readonly counts: readonly number[];
}

const LISTED = 200;

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
      {kinds.length === 0 && data.steps.length > 0 && (
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
          <ul className="cases">
            {rows.slice(0, LISTED).map((row, at) => (
              <li key={at}>
                <a href={href('trajectory', { run: run.id, step, position: row.position })}>
                  task {row.taskIndex}, attempt {row.attempt}
                </a>
                <span className="tag bad">{row.kind.replace(/^(ends|tools\/problems)\//, '')}</span>
                {row.turn !== null && <span className="quiet">turn {row.turn}</span>}
                <span className="case">{row.message}</span>
              </li>
            ))}
          </ul>
          {rows.length > LISTED && <p className="quiet">and {rows.length - LISTED} more</p>}
        </section>
      )}
    </>
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
    <svg width={steps.length * width} height="30" role="group" aria-label={`${kind.label} by step`}>
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
