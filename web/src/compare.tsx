import type {
  AttemptRow,
  MetricsView,
  RunSummary,
  StepView,
  TaskPlaces,
  TrajectoryView,
} from '../../src/watch/dashboard/api.ts';
import type { ViewProps } from './app.tsx';
import { Chat } from './chat.tsx';
import { api, useApi, useApis } from './data.ts';
import { short } from './numbers.ts';
import { change, href, useRoute } from './route.ts';
import { Notice } from './step-picker.tsx';
import { Facts } from './trajectory.tsx';

interface Place {
  readonly run: string;
  readonly step: number;
  readonly position: number;
}

/** One task at two steps, in two runs, or two attempts at it, side by side. */
export function Compare({ runs, run }: ViewProps) {
  const route = useRoute();
  const metrics = useApi<MetricsView>(api.metrics(run.id));
  const lastStep = metrics.data?.recorded.at(-1);
  const newest = useApi<StepView>(lastStep === undefined ? undefined : api.step(run.id, lastStep));
  const opening = lastStep === undefined ? undefined : bestAndWorst(newest.data?.attempts ?? []);
  const place = (position: number): Place => ({ run: run.id, step: lastStep ?? 0, position });
  const given = readPlace(route.get('left'));
  const left = given ?? (opening && place(opening.best));
  const leftStep = useApi<StepView>(left && api.step(left.run, left.step));
  const task = leftStep.data?.attempts[left?.position ?? 0]?.taskIndex;
  // Task 3 of a validation set is another than task 3 of training.
  const set = runs.find(({ id }) => id === left?.run)?.evaluation ?? null;
  const same = runs.filter(({ evaluation }) => evaluation === set);
  const places = useApis<TaskPlaces>(task === undefined ? [] : same.map(({ id }) => api.task(id, task)));
  const elsewhere = same.flatMap((one, at) => (places[at]?.steps ?? []).map((step) => ({ run: one, step })));
  const right =
    readPlace(route.get('right')) ??
    (given ? defaultRight(given, leftStep.data?.attempts ?? [], elsewhere) : opening && place(opening.worst));
  const rightStep = useApi<StepView>(right && api.step(right.run, right.step));
  const titles = [leftStep.data, rightStep.data].map((view) =>
    task === undefined ? undefined : view?.titles[task],
  );
  const differs = titles.every((title) => title !== undefined) && titles[0] !== titles[1];
  if (left === undefined) return <p className="quiet">No step has finished yet.</p>;
  return (
    <>
      <div className="bar">
        <span>
          Task <b>{task ?? '–'}</b>
        </span>
        {leftStep.data && left && (
          <label className="inline">
            Other task of this step
            <select
              value={task}
              onChange={(event) => {
                const row = leftStep.data?.attempts.find(
                  (one) => one.taskIndex === Number(event.target.value),
                );
                change({ left: `${left.run}:${left.step}:${row?.position ?? 0}`, right: undefined });
              }}
            >
              {Object.entries(leftStep.data.titles).map(([number, title]) => (
                <option key={number} value={number}>
                  {number}: {title.slice(0, 60)}
                </option>
              ))}
            </select>
          </label>
        )}
        <span className="quiet">
          attempted in {elsewhere.length} step{elsewhere.length === 1 ? '' : 's'}
        </span>
      </div>
      {differs && (
        <p className="tag warn">Task {task} is not the same on both sides: the runs have different tasks.</p>
      )}
      <div className="two even">
        <Side name="left" place={left} task={task} elsewhere={elsewhere} />
        {right && <Side name="right" place={right} task={task} elsewhere={elsewhere} />}
      </div>
    </>
  );
}

type Elsewhere = readonly { readonly run: RunSummary; readonly step: number }[];

function Side({
  name,
  place,
  task,
  elsewhere,
}: {
  name: 'left' | 'right';
  place: Place;
  task: number | undefined;
  elsewhere: Elsewhere;
}) {
  const step = useApi<StepView>(api.step(place.run, place.step));
  const attempts = step.data?.attempts.filter((row) => row.taskIndex === task) ?? [];
  const row =
    attempts.find(({ position }) => position === place.position) ?? nearest(attempts, place.position);
  const { data, error } = useApi<TrajectoryView>(row && api.trajectory(place.run, place.step, row.position));
  const rewards = attempts.flatMap(({ reward }) => reward ?? []);
  const mean = rewards.length === 0 ? null : rewards.reduce((sum, one) => sum + one, 0) / rewards.length;
  return (
    <section className="side" aria-label={`${name} side`}>
      <div className="bar">
        <select
          aria-label={`Run and step, ${name}`}
          value={`${place.run}:${place.step}`}
          onChange={(event) => change({ [name]: `${event.target.value}:0` })}
        >
          {elsewhere.map(({ run, step: one }) => (
            <option key={`${run.id}:${one}`} value={`${run.id}:${one}`}>
              {run.name}
              {run.fork ? ` (fork at turn ${run.fork.turn})` : ''}, step {one}
            </option>
          ))}
        </select>
        <select
          aria-label={`Attempt, ${name}`}
          value={row?.position}
          onChange={(event) => change({ [name]: `${place.run}:${place.step}:${event.target.value}` })}
        >
          {attempts.map((one) => (
            <option key={one.position} value={one.position}>
              attempt {one.attempt}, reward {short(one.reward)}
            </option>
          ))}
        </select>
        <span className="quiet">
          mean of {rewards.length}: {short(mean)}
        </span>
        {row && (
          <a href={href('trajectory', { run: place.run, step: place.step, position: row.position })}>open</a>
        )}
      </div>
      {!data && <Notice error={error} what="the trajectory" />}
      {data && <Facts view={data} />}
      {data && <Chat run={place.run} trajectory={data.trajectory} />}
    </section>
  );
}

/** The link may name only the step: then the task's first attempt there. */
const nearest = (attempts: readonly AttemptRow[], position: number) =>
  attempts.find((row) => row.position >= position) ?? attempts[0];

function readPlace(text: string | undefined): Place | undefined {
  const [run, step, position] = text?.split(':') ?? [];
  return run === undefined || step === undefined
    ? undefined
    : { run, step: Number(step), position: Number(position ?? 0) };
}

/** The task whose attempts differ most in reward, its best and its worst attempt; the first two where none differ. */
function bestAndWorst(attempts: readonly AttemptRow[]): { best: number; worst: number } {
  const groups = Object.values(Object.groupBy(attempts, ({ taskIndex }) => taskIndex)) as AttemptRow[][];
  let found = { spread: 0, best: 0, worst: Math.min(1, Math.max(0, attempts.length - 1)) };
  for (const rows of groups) {
    const scored = rows.filter(({ reward }) => reward !== null).sort((a, b) => b.reward! - a.reward!);
    const [best, worst] = [scored[0], scored.at(-1)];
    if (!best || !worst || best.reward! - worst.reward! <= found.spread) continue;
    found = { spread: best.reward! - worst.reward!, best: best.position, worst: worst.position };
  }
  return found;
}

/** Another attempt at the task with another reward; else the task in another run or step; else the next attempt. */
function defaultRight(left: Place, attempts: readonly AttemptRow[], elsewhere: Elsewhere): Place | undefined {
  const own = attempts[left.position];
  const siblings = attempts.filter((row) => row.taskIndex === own?.taskIndex && row.reward !== null);
  const differing = siblings.filter(({ reward }) => reward !== own?.reward);
  const distance = ({ reward }: AttemptRow) => Math.abs((reward ?? 0) - (own?.reward ?? 0));
  const farthest = differing.sort((one, other) => distance(other) - distance(one))[0];
  if (farthest) return { ...left, position: farthest.position };
  const other =
    elsewhere.find(({ run, step }) => run.id !== left.run && step === left.step) ??
    elsewhere.findLast(({ run, step }) => run.id === left.run && step !== left.step) ??
    elsewhere.find(({ run }) => run.id !== left.run);
  if (other) return { run: other.run.id, step: other.step, position: 0 };
  return { ...left, position: left.position + 1 };
}
