import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef, useState } from 'react';
import type { AttemptRow, SearchView, StepView } from '../../src/watch/dashboard/api.ts';
import type { ViewProps } from './app.tsx';
import { api, useApi } from './data.ts';
import { useKeys } from './keys.ts';
import { short } from './numbers.ts';
import { change, go, href, useRoute } from './route.ts';
import { Notice, StepPicker, useSteps } from './step-picker.tsx';

const SORTS: Readonly<Record<string, { label: string; of: (row: AttemptRow) => number; down?: boolean }>> = {
  task: { label: 'task, grouped', of: (row) => row.position },
  'reward-down': { label: 'reward, best first', of: (row) => row.reward ?? -Infinity, down: true },
  reward: { label: 'reward, worst first', of: (row) => row.reward ?? Infinity },
  advantage: { label: 'advantage, largest first', of: (row) => Math.abs(row.advantage ?? 0), down: true },
  tokens: { label: 'tokens, most first', of: (row) => row.tokens, down: true },
  turns: { label: 'turns, most first', of: (row) => row.turns, down: true },
  problems: { label: 'problems, most first', of: (row) => row.problems, down: true },
};

type Item =
  | { readonly kind: 'group'; readonly task: number; readonly rows: readonly AttemptRow[] }
  | { readonly kind: 'attempt'; readonly row: AttemptRow };

export function Step({ run }: ViewProps) {
  const route = useRoute();
  const { steps, step } = useSteps(run.id, route.number('step'));
  const { data, error } = useApi<StepView>(step === undefined ? undefined : api.step(run.id, step));
  const find = route.get('find') ?? '';
  const search = useApi<SearchView>(
    step === undefined || find === '' ? undefined : api.search(run.id, step, find),
  );
  const [cursor, setCursor] = useState(-1);
  const sort = route.get('sort') ?? 'task';
  const end = route.get('end') ?? '';
  const only = route.get('only') ?? '';
  const hits = useMemo(
    () => new Map(search.data?.hits.map((hit) => [hit.position, hit.snippet])),
    [search.data],
  );
  const items = useMemo(
    () => (data ? arrange(data, { sort, end, only, hits: find === '' ? undefined : hits }) : []),
    [data, sort, end, only, find, hits],
  );
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (items[index]?.kind === 'group' ? 58 : 34),
    overscan: 12,
  });
  const move = (by: number) => {
    let next = cursor + by;
    while (items[next]?.kind === 'group') next += by;
    if (items[next] === undefined) return;
    setCursor(next);
    list.scrollToIndex(next);
  };
  const open = (row: AttemptRow) => href('trajectory', { run: run.id, step, position: row.position });
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => {
      const item = items[cursor];
      if (item?.kind === 'attempt') go(open(item.row));
    },
    '/': () => document.getElementById('find')?.focus(),
  });
  if (step === undefined) return <p className="quiet">No step has finished yet.</p>;
  const count = items.filter((item) => item.kind === 'attempt').length;
  return (
    <>
      <div className="bar">
        <StepPicker steps={steps} step={step} />
        <FindText value={find} />
        <label className="inline">
          Sort by
          <select
            value={sort}
            onChange={(event) =>
              change({ sort: event.target.value === 'task' ? undefined : event.target.value })
            }
          >
            {Object.entries(SORTS).map(([name, { label }]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label className="inline">
          End
          <select value={end} onChange={(event) => change({ end: event.target.value })}>
            <option value="">any</option>
            {[...new Set(data?.attempts.map((row) => row.end))].sort().map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label className="inline">
          Show
          <select value={only} onChange={(event) => change({ only: event.target.value })}>
            <option value="">all attempts</option>
            <option value="spread">groups with spread</option>
            <option value="problems">with problems</option>
            <option value="positive">advantage above 0</option>
            <option value="negative">advantage below 0</option>
          </select>
        </label>
        <span className="quiet" role="status">
          {data && `${count} of ${data.attempts.length} attempts`}
          {find !== '' && !search.data && !search.error && ', searching…'}
        </span>
      </div>
      {data && <Summary view={data} />}
      {!data && <Notice error={error} what={`step ${step}`} />}
      <div
        ref={scroller}
        className="list"
        role="table"
        aria-label={`Attempts of step ${step}`}
        aria-rowcount={items.length}
      >
        <div className="attempt head" role="row">
          {['attempt', 'reward', 'advantage', 'end', 'turns', 'problems', 'tokens', 'sampled', 'reply'].map(
            (name) => (
              <span key={name} role="columnheader" className={`c-${name}`}>
                {name}
              </span>
            ),
          )}
        </div>
        <div style={{ height: list.getTotalSize(), position: 'relative' }} role="rowgroup">
          {list.getVirtualItems().map(({ index, start, size }) => {
            const item = items[index]!;
            const style = { transform: `translateY(${start}px)`, height: size };
            return item.kind === 'group' ? (
              <GroupRow
                key={index}
                item={item}
                title={data!.titles[item.task] ?? ''}
                style={style}
                run={run.id}
                step={step}
              />
            ) : (
              <AttemptLine
                key={index}
                row={item.row}
                target={open(item.row)}
                style={style}
                isCurrent={index === cursor}
                withTask={sort !== 'task'}
                snippet={hits.get(item.row.position)}
                reply={data!.replies[item.row.position]}
              />
            );
          })}
        </div>
      </div>
    </>
  );
}

function FindText({ value }: { readonly value: string }) {
  return (
    <form
      className="inline"
      onSubmit={(event) => {
        event.preventDefault();
        change({ find: String(new FormData(event.currentTarget).get('find') ?? '') });
      }}
    >
      <input
        id="find"
        name="find"
        type="search"
        key={value}
        defaultValue={value}
        placeholder="Find text (/)"
        aria-label="Find text in this step"
      />
      <button type="submit">Find</button>
    </form>
  );
}

/** Rewards at a glance: how many attempts got how much. */
function Summary({ view }: { readonly view: StepView }) {
  const rewards = view.attempts.flatMap(({ reward }) => reward ?? []);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  const groups = Object.values(Object.groupBy(view.attempts, ({ taskIndex }) => taskIndex)) as AttemptRow[][];
  const flat = groups.filter((rows) => !hasSpread(rows)).length;
  const ends = Object.entries(Object.groupBy(view.attempts, ({ end }) => end));
  return (
    <p className="facts">
      <span>
        <b>{groups.length}</b> groups
      </span>
      <span>
        mean reward <b>{short(mean)}</b>
      </span>
      <span>
        <b>{flat}</b> without spread
      </span>
      {ends.map(([name, rows]) => (
        <span key={name}>
          <b>{rows!.length}</b> {name}
        </span>
      ))}
    </p>
  );
}

function GroupRow({
  item,
  title,
  style,
  run,
  step,
}: {
  item: Extract<Item, { kind: 'group' }>;
  title: string;
  style: React.CSSProperties;
  run: string;
  step: number;
}) {
  const rewards = item.rows.flatMap(({ reward }) => reward ?? []);
  const mean = rewards.length === 0 ? null : rewards.reduce((sum, one) => sum + one, 0) / rewards.length;
  return (
    <div className="group" role="row" style={style}>
      <span role="cell" className="group-cell">
        <b>Task {item.task}</b>
        <span className="boxes" aria-hidden="true">
          {item.rows.map((row) => (
            <i key={row.position} style={{ background: rewardColour(row.reward) }} />
          ))}
        </span>
        <span className="quiet">mean {short(mean)}</span>
        {!hasSpread(item.rows) && <span className="tag">no spread</span>}
        <a href={href('compare', { run, left: `${run}:${step}:${item.rows[0]!.position}`, task: item.task })}>
          compare
        </a>
        <span className="title">{title}</span>
      </span>
    </div>
  );
}

function AttemptLine({
  row,
  target,
  style,
  isCurrent,
  withTask,
  snippet,
  reply,
}: {
  row: AttemptRow;
  target: string;
  style: React.CSSProperties;
  isCurrent: boolean;
  withTask: boolean;
  snippet: string | undefined;
  reply: string | undefined;
}) {
  return (
    <div className={`attempt${isCurrent ? ' current' : ''}`} role="row" style={style}>
      <span role="cell" className="c-attempt">
        <a href={target} aria-label={`Task ${row.taskIndex}, attempt ${row.attempt}`}>
          {withTask ? `${row.taskIndex} / ${row.attempt}` : row.attempt}
        </a>
      </span>
      <span role="cell" className="c-reward">
        <i className="box" style={{ background: rewardColour(row.reward) }} aria-hidden="true" />{' '}
        {short(row.reward)}
      </span>
      <span role="cell" className={`c-advantage ${sign(row.advantage)}`}>
        {short(row.advantage)}
      </span>
      <span
        role="cell"
        className={`c-end ${row.end === 'completed' ? '' : 'warn'}`}
        title={row.message ?? undefined}
      >
        {row.end}
      </span>
      <span role="cell" className="c-turns">
        {row.turns}
      </span>
      <span role="cell" className={`c-problems ${row.problems > 0 ? 'warn' : 'quiet'}`}>
        {row.problems}
      </span>
      <span role="cell" className="c-tokens">
        {row.tokens}
      </span>
      <span role="cell" className="c-sampled">
        {row.sampledTokens}
      </span>
      {snippet === undefined ? (
        <span role="cell" className="reply" title={reply}>
          {reply}
        </span>
      ) : (
        <span role="cell" className="snippet">
          …{snippet}…
        </span>
      )}
    </div>
  );
}

interface Wanted {
  readonly sort: string;
  readonly end: string;
  readonly only: string;
  readonly hits: ReadonlyMap<number, string> | undefined;
}

function arrange({ attempts }: StepView, { sort, end, only, hits }: Wanted): Item[] {
  const groups = Object.groupBy(attempts, ({ taskIndex }) => taskIndex) as Record<number, AttemptRow[]>;
  const rows = attempts.filter(
    (row) =>
      (end === '' || row.end === end) &&
      (hits?.has(row.position) ?? true) &&
      (only !== 'spread' || hasSpread(groups[row.taskIndex]!)) &&
      (only !== 'problems' || row.problems > 0) &&
      (only !== 'positive' || (row.advantage ?? 0) > 0) &&
      (only !== 'negative' || (row.advantage ?? 0) < 0),
  );
  const { of, down } = SORTS[sort] ?? SORTS['task']!;
  if (sort in SORTS && sort !== 'task') {
    const sorted = [...rows].sort(
      (a, b) => (down ? of(b) - of(a) : of(a) - of(b)) || a.position - b.position,
    );
    return sorted.map((row) => ({ kind: 'attempt', row }));
  }
  const items: Item[] = [];
  let task: number | undefined;
  for (const row of rows) {
    if (row.taskIndex !== task)
      items.push({ kind: 'group', task: row.taskIndex, rows: groups[row.taskIndex]! });
    task = row.taskIndex;
    items.push({ kind: 'attempt', row });
  }
  return items;
}

function hasSpread(rows: readonly AttemptRow[]): boolean {
  const rewards = rows.flatMap(({ reward }) => reward ?? []);
  return rewards.some((reward) => reward !== rewards[0]);
}

export const sign = (value: number | null) =>
  value === null || value === 0 ? 'quiet' : value > 0 ? 'good' : 'bad';

/** From red (0 or less) over yellow to green (1 or more); grey where there is none. */
export function rewardColour(reward: number | null): string {
  if (reward === null) return 'var(--line)';
  return `hsl(${Math.max(0, Math.min(1, reward)) * 150} 62% 45%)`;
}
