import { useMemo, useState } from 'react';
import type { MetricsView, RunSummary } from '../../src/watch/dashboard/api.ts';
import { RunDot, type ViewProps } from './app.tsx';
import { Chart, type Line } from './chart.tsx';
import { api, useApis } from './data.ts';
import { Headline, RunNow, validationOf, valuesOf } from './headline.tsx';
import { useKeys } from './keys.ts';
import { duration, percent, short } from './numbers.ts';
import { change, go, href, useRoute } from './route.ts';
import { lineColour } from './theme.ts';

interface ChartSpec {
  readonly title: string;
  readonly hint: string;
  readonly names: readonly (string | RegExp)[];
}

/** What a person wants to see first. A chart without numbers is left out. */
const CHARTS: readonly ChartSpec[] = [
  { title: 'Reward', hint: 'mean of a step’s attempts', names: ['critic/score/mean'] },
  { title: 'Validation', hint: 'mean reward on held-out tasks', names: [/^val-core\/.*mean@\d+$/] },
  { title: 'Valid tool calls', hint: 'share of all calls', names: ['tools/valid'] },
  { title: 'Entropy', hint: 'of the policy, per token', names: ['actor/entropy'] },
  {
    title: 'KL',
    hint: 'to sampler and reference',
    names: ['actor/ppo_kl', 'actor/kl_loss', 'actor/kl', 'critic/kl'],
  },
  { title: 'Gradient norm', hint: 'before clipping', names: ['actor/grad_norm'] },
  {
    title: 'Reply length',
    hint: 'tokens per trajectory',
    names: ['response_length/mean', 'response_length/max'],
  },
  { title: 'Turns', hint: 'replies per trajectory', names: ['turns/mean'] },
  { title: 'Tool calls', hint: 'per trajectory', names: ['tool_call_counts/mean'] },
  {
    title: 'Groups without spread',
    hint: 'share',
    names: ['training/groups_without_spread'],
  },
  { title: 'Clipped tokens', hint: 'share', names: ['actor/pg_clipfrac', 'actor/pg_clipfrac_lower'] },
  {
    title: 'Rollout against trainer',
    hint: 'probabilities',
    names: ['training/rollout_probs_diff_mean', 'training/rollout_probs_diff_max'],
  },
  { title: 'Time', hint: 'seconds per step, by part', names: [/^timing_s\//] },
  { title: 'Throughput', hint: 'tokens per second of a step', names: ['perf/throughput'] },
  {
    title: 'Processors',
    hint: 'share of this machine in use',
    names: ['perf/cpu_share', 'perf/gpu_share'],
  },
  { title: 'Memory', hint: 'gigabytes on this machine', names: [/^perf\/\w+_memory(_used)?_gb$/] },
];

const DASHES = [undefined, [6, 3], [2, 3], [9, 3, 2, 3], [1, 2]] as const;
const MOST_FOUND = 12;
/** Charts that are twice as wide. */
const WIDE = new Set(['Reward', 'Validation']);

export function Overview({ runs }: ViewProps) {
  const route = useRoute();
  const own = runs.filter((run) => run.parent === null);
  const named = route.get('runs')?.split(',');
  const shown = own.filter(({ id }) => named?.includes(id) ?? true);
  const smoothing = route.number('smooth') ?? 0;
  const at = route.number('at');
  const metrics = useApis<MetricsView>(shown.map(({ id }) => api.metrics(id)));
  const [find, setFind] = useState('');
  const loaded = shown.flatMap((run, index) => {
    const view = metrics[index];
    return view ? [{ run, view, colour: own.indexOf(run) }] : [];
  });
  const key = loaded.map(({ run, view }) => `${run.id}:${view.steps.length}`).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` changes when there is something new
  const charts = useMemo(() => CHARTS.map((spec) => ({ spec, lines: linesOf(spec.names, loaded) })), [key]);
  const names = [...new Set(loaded.flatMap(({ view }) => Object.keys(view.series)))].sort();
  const found =
    find === ''
      ? []
      : names.filter((name) => name.toLowerCase().includes(find.toLowerCase())).slice(0, MOST_FOUND);
  const foundKey = found.join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  const foundCharts = useMemo(
    () =>
      found.map((name) => ({
        spec: { title: name, hint: '', names: [name] },
        lines: linesOf([name], loaded),
      })),
    [key, foundKey],
  );
  const steps = [...new Set(loaded.flatMap(({ view }) => view.steps))].sort((a, b) => a - b);
  const move = (by: number) => {
    const index = at === undefined ? steps.length - 1 : steps.indexOf(at) + by;
    change({ at: steps[Math.max(0, Math.min(steps.length - 1, index))] });
  };
  const first = loaded.find(({ view }) => at !== undefined && view.recorded.includes(at));
  useKeys({
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    Enter: () => first && go(href('step', { run: first.run.id, step: at })),
    Escape: () => change({ at: undefined }),
  });

  const visible = charts.filter(({ lines }) => lines.length > 0);
  return (
    <>
      <div className="bar">
        <fieldset className="runs" aria-label="Runs shown">
          {own.map((run, index) => (
            <label key={run.id} className="chip">
              <input
                type="checkbox"
                checked={shown.includes(run)}
                onChange={() => change({ runs: toggled(own, shown, run) })}
              />
              <RunDot index={index} /> {run.name}
            </label>
          ))}
        </fieldset>
        <label className="inline">
          Smoothing
          <input
            type="range"
            min="0"
            max="0.95"
            step="0.05"
            value={smoothing}
            onChange={(event) => change({ smooth: Number(event.target.value) || undefined })}
          />
          <output>{smoothing.toFixed(2)}</output>
        </label>
        <label className="inline">
          Find a metric
          <input
            type="search"
            value={find}
            onChange={(event) => setFind(event.target.value)}
            placeholder={`${names.length} recorded`}
          />
        </label>
      </div>
      {loaded.length === 1 && <Headline {...loaded[0]!} />}
      {loaded.length > 1 && <RunTable loaded={loaded} />}
      {loaded.map(({ run }) => (
        <RunNow key={run.id} run={run} named={loaded.length > 1} />
      ))}
      <StepCursor at={at} loaded={loaded} runs={runs} onMove={move} />
      {foundCharts.length > 0 && <Grid charts={foundCharts} smoothing={smoothing} at={at} />}
      <Grid charts={visible} smoothing={smoothing} at={at} />
      {loaded.length > 0 && visible.length === 0 && <p className="quiet">No step has finished yet.</p>}
    </>
  );
}

interface Loaded {
  readonly run: RunSummary;
  readonly view: MetricsView;
  readonly colour: number;
}

function Grid({
  charts,
  smoothing,
  at,
}: {
  charts: readonly { spec: ChartSpec; lines: Line[] }[];
  smoothing: number;
  at: number | undefined;
}) {
  return (
    <section className="charts" aria-label="Curves">
      {charts.map(({ spec, lines }) => (
        <figure key={spec.title} className={`card${WIDE.has(spec.title) ? ' wide-chart' : ''}`}>
          <figcaption>
            <b>{spec.title}</b> <span className="quiet hint-text">{spec.hint}</span>
            <span className="readout" />
          </figcaption>
          <Chart
            title={spec.title}
            lines={lines}
            smoothing={smoothing}
            at={at}
            onPick={(step) => change({ at: step })}
          />
          {lines.length > 1 && (
            <ul className="legend">
              {lines.map((line) => (
                <li key={line.label}>
                  <svg width="16" height="6" aria-hidden="true">
                    <line
                      x1="0"
                      x2="16"
                      y1="3"
                      y2="3"
                      stroke={line.colour}
                      strokeWidth="2"
                      strokeDasharray={line.dash?.join(' ')}
                    />
                  </svg>
                  {line.label}
                </li>
              ))}
            </ul>
          )}
        </figure>
      ))}
    </section>
  );
}

/** The numbers at the marked step, and the way into it. */
function StepCursor({
  at,
  loaded,
  runs,
  onMove,
}: {
  at: number | undefined;
  loaded: readonly Loaded[];
  runs: readonly RunSummary[];
  onMove: (by: number) => void;
}) {
  if (at === undefined) {
    return <p className="hint quiet">Click a curve, or press ← →, to mark a step; Enter opens it.</p>;
  }
  return (
    <section className="cursor card" aria-label={`Step ${at}`} aria-live="polite">
      <div className="row">
        <button type="button" onClick={() => onMove(-1)} aria-label="Step before">
          ←
        </button>
        <b>Step {at}</b>
        <button type="button" onClick={() => onMove(1)} aria-label="Step after">
          →
        </button>
        <button
          type="button"
          className="plain"
          onClick={() => change({ at: undefined })}
          aria-label="Unmark the step"
        >
          ×
        </button>
      </div>
      {loaded.map(({ run, view, colour }) => {
        const index = view.steps.indexOf(at);
        const value = (name: string) => short(view.series[name]?.[index]);
        const validation = Object.keys(view.series).find((name) => /^val-core\//.test(name));
        const evaluations =
          validation !== undefined && typeof view.series[validation]?.[index] === 'number'
            ? runs.filter((one) => one.parent === run.id && one.evaluation !== null)
            : [];
        return (
          <div className="row" key={run.id}>
            <RunDot index={colour} /> {run.name}
            <span>
              reward <b>{value('critic/score/mean')}</b>
            </span>
            {validation && (
              <span>
                validation <b>{value(validation)}</b>
              </span>
            )}
            <span>
              entropy <b>{value('actor/entropy')}</b>
            </span>
            <span>
              tokens <b>{value('response_length/mean')}</b>
            </span>
            <span>
              valid calls <b>{percent(view.series['tools/valid']?.[index])}</b>
            </span>
            {view.recorded.includes(at) && (
              <>
                <a href={href('step', { run: run.id, step: at })}>trajectories</a>
                <a href={href('timeline', { run: run.id, step: at })}>timeline</a>
                <a href={href('failures', { run: run.id, step: at })}>failures</a>
              </>
            )}
            {evaluations.map(({ id, evaluation }) => (
              <a key={id} href={href('step', { run: id, step: at })}>
                evaluation on {evaluation}
              </a>
            ))}
          </div>
        );
      })}
    </section>
  );
}

function RunTable({ loaded }: { readonly loaded: readonly Loaded[] }) {
  return (
    <div className="scroll">
      <table className="runs-table">
        <caption className="hidden">Runs</caption>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">State</th>
            <th scope="col">Steps</th>
            <th scope="col">Time</th>
            <th scope="col">Algorithm</th>
            <th scope="col">Reward, first → last</th>
            <th scope="col">Validation, first → last</th>
            <th scope="col">Last step</th>
          </tr>
        </thead>
        <tbody>
          {loaded.map(({ run, view, colour }) => (
            <tr key={run.id}>
              <th scope="row">
                <RunDot index={colour} /> {run.name}
              </th>
              <td>
                <span className={`state ${run.state}`}>
                  <i aria-hidden="true" /> {run.state}
                </span>
              </td>
              <td>
                {run.step ?? 0}
                {run.plannedSteps !== null && ` / ${run.plannedSteps}`}
              </td>
              <td>{duration(run.seconds)}</td>
              <td>{run.algorithm}</td>
              <td>{firstAndLast(valuesOf(view, 'critic/score/mean'))}</td>
              <td>{firstAndLast(valuesOf(view, validationOf(view)))}</td>
              <td>
                {view.recorded.length > 0 && (
                  <a href={href('step', { run: run.id, step: view.recorded.at(-1) })}>
                    step {view.recorded.at(-1)}
                  </a>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const firstAndLast = (values: readonly number[]) =>
  values.length === 0 ? '–' : `${short(values[0])} → ${short(values.at(-1))}`;

/** Colour tells lines of one run apart; with several runs colour is the run and dashes the metric. */
function linesOf(wanted: readonly (string | RegExp)[], loaded: readonly Loaded[]): Line[] {
  const lines: Line[] = [];
  for (const { run, view, colour } of loaded) {
    const names = Object.keys(view.series).filter((name) =>
      wanted.some((one) => (typeof one === 'string' ? one === name : one.test(name))),
    );
    for (const [index, name] of names.entries()) {
      const dash = loaded.length > 1 ? DASHES[index % DASHES.length] : undefined;
      const metric = name.replace(/^(timing_s|perf|actor|critic|training|val-core)\//, '');
      lines.push({
        label: loaded.length > 1 ? (names.length > 1 ? `${run.name} ${metric}` : run.name) : metric,
        colour: lineColour(loaded.length > 1 ? colour : colour + index),
        ...(dash && { dash }),
        steps: view.steps,
        values: view.series[name]!,
      });
    }
  }
  return lines;
}

function toggled(
  all: readonly RunSummary[],
  shown: readonly RunSummary[],
  run: RunSummary,
): string | undefined {
  const next = all.filter((one) => (one === run ? !shown.includes(one) : shown.includes(one)));
  return next.length === all.length ? undefined : next.map(({ id }) => id).join(',') || 'none';
}
