/**
 * A run as one HTML file: the page itself, with the answers it would have asked the server for inside it. What was
 * not put in is not there; the page says so.
 */
import { ConfigError } from '../../errors.ts';
import type { ImageRef } from '../../types.ts';
import type { IndexEntry, StoredTrajectory } from '../trajectory-store.ts';
import type { TrajectoryView } from './api.ts';
import { loadPage, type Page } from './page.ts';
import { type WatchedRun, WatchedRuns } from './runs.ts';
import { createApp } from './server.ts';
import type { TokenTexts } from './views.ts';

export interface ReportOptions {
  readonly runs: readonly string[];
  /** Steps whose trajectories go in; by default the first, the middle and the last. */
  readonly steps?: readonly number[];
  /** Trajectories per step, half of them the best and half the worst. */
  readonly trajectories: number;
  readonly tokenizerOf: (directory: string) => Promise<TokenTexts>;
  say?(line: string): void;
}

export async function createReport(options: ReportOptions): Promise<string> {
  const page = await loadPage(options.say);
  const watched = await WatchedRuns.open(options.runs);
  const app = createApp({
    ...options,
    page,
    watched,
    token: undefined,
    signal: new AbortController().signal,
  });
  const answers: Record<string, unknown> = {};
  const put = async (path: string) => {
    const response = await app.request(path, { headers: { host: 'localhost' } });
    answers[path] = await response.json();
  };
  /** In the page itself, as the browser takes it; one that is gone is left out, as in the dashboard. */
  const putImage = async (path: string) => {
    const response = await app.request(path, { headers: { host: 'localhost' } });
    if (!response.ok) return;
    const bytes = Buffer.from(await response.arrayBuffer()).toString('base64');
    answers[path] = `data:${response.headers.get('content-type')};base64,${bytes}`;
  };
  await put('api/runs');
  for (const run of watched.list) {
    await put(`api/runs/${run.id}/metrics`);
    for (const step of await chosenSteps(run, options.steps)) {
      const index = await run.index(step);
      if (!index) throw new ConfigError(`${run.directory} has no step ${step}`);
      const place = `api/runs/${run.id}/steps/${step}`;
      for (const part of ['', '/timeline', '/failures']) await put(`${place}${part}`);
      for (const position of chosenTrajectories(index.trajectories, options.trajectories)) {
        await put(`${place}/trajectories/${position}`);
        const { trajectory } = answers[`${place}/trajectories/${position}`] as TrajectoryView;
        for (const image of imagesIn(trajectory)) await putImage(`api/runs/${run.id}/blobs/${image.blob}`);
        await put(`api/runs/${run.id}/tasks/${index.trajectories[position]!.taskIndex}`);
      }
    }
  }
  return inOneFile(page, answers);
}

const imagesIn = ({ messages }: StoredTrajectory): ImageRef[] =>
  messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((part) => (part.type === 'image' ? part.image : [])),
  );

async function chosenSteps(
  run: WatchedRun,
  wanted: readonly number[] | undefined,
): Promise<readonly number[]> {
  const { recorded } = await run.metrics();
  // Parts of a run, its evaluations for one, have some of its steps.
  if (wanted) return run.parent === undefined ? wanted : wanted.filter((step) => recorded.includes(step));
  const middle = recorded[Math.floor((recorded.length - 1) / 2)];
  return [...new Set([recorded[0], middle, recorded.at(-1)])].filter((step) => step !== undefined);
}

/** The first attempt, the best and the worst by reward. */
function chosenTrajectories(entries: readonly IndexEntry[], count: number): number[] {
  const order = entries.map((_, position) => position);
  order.sort((a, b) => (entries[b]!.reward ?? 0) - (entries[a]!.reward ?? 0) || a - b);
  const half = Math.ceil(count / 2);
  return [...new Set([0, ...order.slice(0, half), ...order.slice(-half)])].slice(0, Math.max(1, count));
}

function inOneFile(page: Page, answers: Record<string, unknown>): string {
  const text = (path: string) => page.get(path)?.bytes.toString('utf8') ?? '';
  const head = text('/index.html')
    .replace(/<script[^>]*><\/script>/g, '')
    .replace(/<link[^>]*rel="stylesheet"[^>]*>/g, '');
  // `<` never stands in a script that a browser parses: neither in the data nor, as a closing tag, in the code.
  const data = JSON.stringify(answers).replaceAll('<', '\\u003c');
  const code = text('/page.js').replaceAll('</script', '<\\/script');
  const [before, after] = head.split('</body>');
  return [
    before!.replace('</head>', () => `<style>${text('/page.css')}</style></head>`),
    `<script>window.rollcallReport=${data}</script>`,
    `<script type="module">${code}</script>`,
    `</body>${after}`,
  ].join('\n');
}
