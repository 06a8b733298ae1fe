/** What the server knows, fetched once. In a report the answers are in the page itself. */
import { useEffect, useState, useSyncExternalStore } from 'react';
import type { RunList } from '../../src/watch/dashboard/api.ts';

declare global {
  interface Window {
    /** Put there by `rollcall report`: API path → answer. */
    rollcallReport?: Readonly<Record<string, unknown>>;
  }
}

export const isReport = window.rollcallReport !== undefined;

const KEPT = 80;
const answers = new Map<string, Promise<unknown>>();
const ready = new Map<string, unknown>();
let generation = 0;
const listeners = new Set<() => void>();

async function ask(path: string): Promise<unknown> {
  if (window.rollcallReport) {
    if (path in window.rollcallReport) return window.rollcallReport[path];
    throw new Error('This is not in the report; rollcall watch shows everything.');
  }
  const response = await fetch(path);
  const body = (await response.json().catch(() => ({ error: response.statusText }))) as { error?: string };
  if (!response.ok) throw new Error(body.error ?? response.statusText);
  return body;
}

function load(path: string): Promise<unknown> {
  const known = answers.get(path);
  if (known) return known;
  const answer = ask(path);
  answers.set(path, answer);
  answer.then(
    (value) => {
      const before = ready.get(path);
      ready.set(path, value);
      if (path === api.runs() && wasResumed(before as RunList | undefined, value as RunList)) forgetSteps();
    },
    () => answers.delete(path),
  );
  const oldest = answers.keys().next().value;
  if (answers.size > KEPT && oldest !== undefined) {
    answers.delete(oldest);
    ready.delete(oldest);
  }
  return answer;
}

export interface Answer<T> {
  readonly data: T | undefined;
  readonly error: string | undefined;
}

/** The answer to a path; undefined asks nothing. While a live run changes, the last answer stays in view. */
export function useApi<T>(path: string | undefined): Answer<T> {
  const now = useSyncExternalStore(subscribe, () => generation);
  const [state, setState] = useState<{ path: string; data?: T; error?: string }>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new generation asks again
  useEffect(() => {
    if (path === undefined) return;
    let gone = false;
    load(path).then(
      (data) => gone || setState({ path, data: data as T }),
      (error: Error) => gone || setState({ path, error: error.message }),
    );
    return () => {
      gone = true;
    };
  }, [path, now]);
  if (path !== undefined && ready.has(path)) return { data: ready.get(path) as T, error: undefined };
  const isCurrent = state !== undefined && state.path === path;
  return { data: isCurrent ? state.data : undefined, error: isCurrent ? state.error : undefined };
}

/** Several paths at once, in order; what has not come yet is undefined. */
export function useApis<T>(paths: readonly string[]): readonly (T | undefined)[] {
  const now = useSyncExternalStore(subscribe, () => generation);
  const [, setCount] = useState(0);
  const key = paths.join('\n');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the paths are in the key
  useEffect(() => {
    let gone = false;
    for (const path of paths)
      load(path).then(
        () => gone || setCount((count) => count + 1),
        () => {},
      );
    return () => {
      gone = true;
    };
  }, [key, now]);
  return paths.map((path) => ready.get(path) as T | undefined);
}

export const post = async <T>(path: string, body: unknown): Promise<T> => {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as T & { error?: string };
  if (!response.ok) throw new Error(answer.error ?? response.statusText);
  refresh();
  return answer;
};

/** What changes during a run is fetched again; a complete step changes only when a resumed run repeats it. */
function refresh(): void {
  for (const path of [...answers.keys()]) {
    if (!path.endsWith('/metrics') && path !== api.runs() && !path.includes('/tasks/')) continue;
    answers.delete(path);
    load(path).then(tell, () => {});
  }
  tell();
}

const wasResumed = (before: RunList | undefined, now: RunList) =>
  now.runs.some(({ id, metricsFile }) => {
    const known = before?.runs.find((run) => run.id === id);
    return known !== undefined && known.metricsFile !== metricsFile;
  });

/** For all runs: evaluations and forks are inside a run that was resumed. */
function forgetSteps(): void {
  for (const path of [...answers.keys()]) {
    if (!path.includes('/steps/')) continue;
    answers.delete(path);
    ready.delete(path);
  }
}

function tell(): void {
  generation++;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Listens for changes of live runs. */
export function followRuns(): void {
  if (isReport) return;
  const events = new EventSource('api/events');
  events.addEventListener('open', refresh); // changes before this, or while the connection was lost, were missed
  events.addEventListener('changed', refresh);
  events.addEventListener('status', () => {
    answers.delete(api.runs());
    load(api.runs()).then(tell, () => {});
  });
}

export const api = {
  runs: () => 'api/runs',
  metrics: (run: string) => `api/runs/${run}/metrics`,
  step: (run: string, step: number) => `api/runs/${run}/steps/${step}`,
  search: (run: string, step: number, words: string) =>
    `api/runs/${run}/steps/${step}/search?q=${encodeURIComponent(words)}`,
  timeline: (run: string, step: number) => `api/runs/${run}/steps/${step}/timeline`,
  failures: (run: string, step: number) => `api/runs/${run}/steps/${step}/failures`,
  trajectory: (run: string, step: number, position: number) =>
    `api/runs/${run}/steps/${step}/trajectories/${position}`,
  task: (run: string, task: number) => `api/runs/${run}/tasks/${task}`,
  blob: (run: string, hash: string) => {
    const path = `api/runs/${run}/blobs/${hash}`;
    return (window.rollcallReport?.[path] as string | undefined) ?? path; // a report has the image itself
  },
  fork: (run: string) => `api/runs/${run}/fork`,
};
