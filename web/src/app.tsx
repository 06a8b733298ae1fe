import { useEffect } from 'react';
import type { RunList, RunSummary } from '../../src/watch/dashboard/api.ts';
import { Compare } from './compare.tsx';
import { api, isReport, useApi } from './data.ts';
import { Failures } from './failures.tsx';
import { useKeys } from './keys.ts';
import { duration } from './numbers.ts';
import { Overview } from './overview.tsx';
import { change, go, href, useRoute } from './route.ts';
import { Step } from './step.tsx';
import { lineColour, toggleTheme } from './theme.ts';
import { Timeline } from './timeline.tsx';
import { Trajectory } from './trajectory.tsx';

export interface ViewProps {
  readonly runs: readonly RunSummary[];
  /** The run in the address, or the first. */
  readonly run: RunSummary;
  readonly canFork: boolean;
}

const VIEWS: Readonly<
  Record<string, { title: string; key: string; view: (props: ViewProps) => React.ReactNode }>
> = {
  overview: { title: 'Overview', key: '1', view: Overview },
  step: { title: 'Step', key: '2', view: Step },
  trajectory: { title: 'Trajectory', key: '3', view: Trajectory },
  compare: { title: 'Compare', key: '4', view: Compare },
  timeline: { title: 'Timeline', key: '5', view: Timeline },
  failures: { title: 'Failures', key: '6', view: Failures },
};

export function App() {
  const route = useRoute();
  const { data, error } = useApi<RunList>(api.runs());
  const runs = data?.runs ?? [];
  const wanted = route.get('run') ?? onlyOne(route.get('runs'));
  const run = wanted === undefined ? runs[0] : runs.find(({ id }) => id === wanted);
  const isSingle = runs.filter(({ parent }) => parent === null).length === 1;
  const current = VIEWS[route.view] ?? VIEWS['overview']!;
  const place = {
    run: route.get('run'),
    step: route.get('step'),
    position: route.get('position'),
  };
  useKeys(
    Object.fromEntries([
      ...Object.entries(VIEWS).map(([name, { key }]) => [key, () => go(href(name, place))]),
      ['t', toggleTheme],
    ]),
  );
  useEffect(() => {
    document.title = `${current.title}${run ? ` · ${run.name}` : ''} · Rollcall`;
  }, [current, run]);

  const View = current.view;
  return (
    <>
      <button type="button" className="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to content
      </button>
      <header className="top">
        <a className="brand" href={href('overview')} aria-label="Rollcall, overview">
          <svg width="22" height="22" viewBox="0 0 16 16" aria-hidden="true">
            <rect width="16" height="16" rx="4" fill="#0b8a6a" />
            <path d="M3 12 L7 7 L9.5 9 L13 4" stroke="white" strokeWidth="1.8" fill="none" />
          </svg>
          Rollcall
        </a>
        <nav aria-label="Views">
          {Object.entries(VIEWS).map(([name, { title, key }]) => (
            <a
              key={name}
              href={href(name, place)}
              aria-current={current === VIEWS[name] ? 'page' : undefined}
              title={`${title} (key ${key})`}
            >
              {title}
            </a>
          ))}
        </nav>
        <div className="grow" />
        {run && current !== VIEWS['overview'] && current !== VIEWS['compare'] && runs.length > 1 && (
          <select aria-label="Run" value={run.id} onChange={(event) => change({ run: event.target.value })}>
            {runs.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        )}
        {run && (wanted !== undefined || isSingle || current !== VIEWS['overview']) && <RunState run={run} />}
        <button
          type="button"
          className="icon"
          onClick={toggleTheme}
          aria-label="Dark or light"
          title="Dark or light (key t)"
        >
          ◐
        </button>
      </header>
      <main id="content" tabIndex={-1}>
        {error && (
          <p className="error" role="alert">
            {error}
          </p>
        )}
        {!data && !error && <p className="quiet">Loading…</p>}
        {data && !run && <Unknown run={wanted} runs={runs} view={route.view} />}
        {run && <View runs={runs} run={run} canFork={data!.canFork && !isReport} />}
      </main>
    </>
  );
}

/** The overview's choice of runs, where it is a single one. */
const onlyOne = (ids: string | undefined) => (ids === 'none' || ids?.includes(',') ? undefined : ids);

function Unknown({
  run,
  runs,
  view,
}: {
  run: string | undefined;
  runs: readonly RunSummary[];
  view: string;
}) {
  if (run === undefined)
    return <p className="quiet">There is no run yet. It is shown as soon as it begins.</p>;
  return (
    <div role="alert">
      <p className="error">
        There is no run <b>{run}</b> here. It may have another name, or lie in a folder that is not watched.
      </p>
      <ul>
        {runs.map(({ id, name }) => (
          <li key={id}>
            <a href={href(view, { run: id })}>{name}</a>
          </li>
        ))}
      </ul>
    </div>
  );
}

function RunState({ run }: { readonly run: RunSummary }) {
  const steps = run.plannedSteps === null ? run.step : `${run.step ?? 0} / ${run.plannedSteps}`;
  return (
    <span className={`state ${run.state}`} title={run.reason ?? `${run.name}: ${run.state}`}>
      <i aria-hidden="true" /> <span className="wide">{run.name}:</span> {run.state}
      <span className="wide">
        {' '}
        · step {steps ?? '–'} · {duration(run.seconds)}
      </span>
    </span>
  );
}

export function RunDot({ index }: { readonly index: number }) {
  return <i className="dot" style={{ background: lineColour(index) }} aria-hidden="true" />;
}
