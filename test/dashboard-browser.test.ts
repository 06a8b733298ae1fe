import { createHash } from 'node:crypto';
import { appendFile, cp, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { train } from 'rollcall';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startDashboard, tokenizerOf } from '../src/cli/watch.ts';
import { createReport } from '../src/watch/dashboard/report.ts';
import type { Dashboard } from '../src/watch/dashboard/server.ts';
import { appendMetrics, discardPast, readMetrics } from '../src/watch/run-directory.ts';
import { readStepIndex } from '../src/watch/trajectory-store.ts';
import { CHROMIUM } from './chromium.ts';
import { tinyModel } from './tiny-model.ts';

const where = CHROMIUM
  ? 'in a browser'
  : 'in a browser (skipped: no Chromium is installed; CHROMIUM may name one)';

interface Line {
  taskIndex: number;
  attempt: number;
  reward: number;
  text: string;
  messages: { role: string; content: string }[];
}

describe.skipIf(!CHROMIUM)(where, () => {
  let folder: string;
  let browser: Browser;
  let dashboard: Dashboard;
  let page: Page;
  const errors: string[] = [];
  const sums = () => join(folder, 'sums');

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rollcall-browser-'));
    process.env['MODEL'] = await tinyModel();
    process.env['RUN'] = sums();
    browser = await chromium.launch({ executablePath: CHROMIUM!, args: ['--no-sandbox'] });
    page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
    page.setDefaultTimeout(15_000);
    page.on('pageerror', (error) => errors.push(error.message));
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await dashboard?.close();
  });
  afterEach(() => expect(errors.splice(0)).toEqual([]));

  const open = (hash: string) => page.goto(`${dashboard.url}#/${hash}`);
  const main = () => page.getByRole('main');
  const linesOf = async (step: number) =>
    (await readFile(join(sums(), 'trajectories', `step_${step}.jsonl`), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);

  test('a live run appears step by step without a reload, and then as finished', async () => {
    const { options } = await import('./runs/sums.ts');
    const steps = train({ ...options, runDir: sums() })[Symbol.asyncIterator]();
    const until = async (step: number) => {
      while ((await steps.next()).value?.step !== step);
    };
    await until(1);
    dashboard = await startDashboard({ runs: [sums()], port: 0, say: () => {} });
    await open('overview');
    const inShort = page.getByRole('region', { name: 'In short' });
    await inShort.getByText(/live · 1 of 3 steps/).waitFor();
    await until(2);
    await inShort.getByText(/live · 2 of 3 steps/).waitFor();
    await until(3);
    await steps.next(); // the end
    await inShort.getByText(/finished · 3 of 3 steps/).waitFor();
    const reward = await page.getByRole('img', { name: /^Reward: / }).getAttribute('aria-label');
    const means = await Promise.all(
      [1, 3].map(async (step) => {
        const rewards = (await linesOf(step)).map((line) => line.reward);
        return Number((rewards.reduce((sum, one) => sum + one, 0) / rewards.length).toPrecision(3));
      }),
    );
    expect(reward).toBe(`Reward: score/mean from ${means[0]} to ${means[1]}`);
  }, 60_000);

  test('arrow keys mark a step and Enter opens it; its attempts can be sorted, filtered and searched', async () => {
    await open('overview');
    await page.getByRole('img', { name: /^Reward: / }).waitFor();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await page.getByRole('region', { name: 'Step 2' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('table', { name: 'Attempts of step 2' }).waitFor();
    expect(page.url()).toMatch(/#\/step\?run=sums&step=2$/);

    const lines = await linesOf(2);
    await page.getByLabel('Sort by').selectOption('reward');
    const worst = lines.findIndex(({ reward }) => reward === Math.min(...lines.map((line) => line.reward)));
    const first = page.getByRole('row').nth(1).getByRole('link');
    const { taskIndex, attempt } = lines[worst]!;
    expect(await first.getAttribute('aria-label')).toBe(`Task ${taskIndex}, attempt ${attempt}`);

    await page.keyboard.press('/');
    await page.keyboard.type('grüße');
    await page.keyboard.press('Enter');
    const saying = lines.filter(({ messages }) => messages.some(({ content }) => content.includes('Grüße')));
    await page
      .getByRole('status')
      .filter({ hasText: `${saying.length} of ${lines.length} attempts` })
      .waitFor();
  }, 60_000);

  test('a link leads straight to a trajectory; a token says what it is', async () => {
    const lines = await linesOf(3);
    const position = lines.findIndex(({ messages }) => messages.some(({ role }) => role === 'tool'));
    const { text, taskIndex, attempt } = lines[position]!;
    await open(`trajectory?run=sums&step=3&position=${position}&colour=log-prob`);
    await main().getByText(`Task ${taskIndex}, attempt ${attempt}`).waitFor();
    const chat = page.getByRole('list', { name: 'Messages' });
    expect(await chat.getByRole('listitem').last().textContent()).toContain(text);
    expect(await page.getByRole('radio', { name: 'log-prob' }).isChecked()).toBe(true);

    const tokens = page.getByRole('listbox', { name: 'Tokens of segment 1' });
    const last = tokens.getByRole('option').last(); // a reply ends with its stop token, id 258
    await last.hover();
    const facts = page.locator('.token-facts');
    await facts.getByText('"<|im_end|>"').waitFor();
    expect(await facts.textContent()).toContain('id258');
    expect(await facts.textContent()).toContain('sampled, trained');
    expect(await facts.textContent()).toContain('version2');
    const count = await tokens.getByRole('option').count();
    await tokens.focus();
    await page.keyboard.press('ArrowLeft');
    await facts.getByText(`${count - 2} of ${count}`).waitFor();
    expect(await facts.textContent()).toContain(`"${text.at(-1)}"`);
  }, 60_000);

  test('tokens that encoding the text again would not give are underlined, with what it would give', async () => {
    let place: [step: number, position: number] | undefined;
    for (const step of [1, 2, 3]) {
      const position = (await linesOf(step)).findIndex(({ text }) => text === 'a\uFFFDb');
      if (position >= 0) place ??= [step, position];
    }
    const [step, position] = place!;
    await open(`trajectory?run=sums&step=${step}&position=${position}`);
    const told = page.getByRole('region', { name: 'Tokens encoded again' });
    await told.getByText('at 1 place (underlined)').waitFor();
    const pieces = await told.getByRole('listitem').locator('code').allTextContents();
    // One byte was sampled; the sign for what is no character has three.
    expect(pieces.map((piece) => Number(piece.split(' ')[0]))).toEqual([0xf0, 0xef, 0xbf, 0xbd]);
    expect(await page.locator('.token.differs').count()).toBe(1);
  }, 60_000);

  test('a marked step leads to what its evaluation sampled', async () => {
    await open('overview?at=3');
    await page.getByRole('link', { name: 'evaluation on unseen/sums' }).click();
    await page.getByRole('table', { name: 'Attempts of step 3' }).waitFor();
    await main().getByText('What is 60 and 8?').waitFor();
    expect(await page.getByLabel('Step', { exact: true }).locator('option').allTextContents()).toEqual([
      '0',
      '3',
    ]);
  }, 60_000);

  test('one task at two steps stands side by side', async () => {
    await open('compare?left=sums:1:0&right=sums:3:0');
    for (const side of ['left', 'right']) {
      await page
        .getByRole('region', { name: `${side} side` })
        .getByText(/Task \d+, attempt \d/)
        .waitFor();
    }
    const options = page.getByLabel('Run and step, left').locator('option');
    await options.nth(2).waitFor({ state: 'attached' });
    expect(await options.allTextContents()).toEqual(['sums, step 1', 'sums, step 2', 'sums, step 3']);
    await main().getByText('attempted in 3 steps').waitFor();
  }, 60_000);

  test('the timeline has a lane per trajectory and per server; failures lead to the trajectory they are of', async () => {
    await open('timeline?run=sums&step=2');
    const lanes = page.getByRole('list', { name: 'Trajectories' }).getByRole('listitem');
    await lanes.first().waitFor();
    expect(await lanes.count()).toBe((await linesOf(2)).length);
    expect(await lanes.first().locator('[title^="generating"]').count()).toBeGreaterThan(0);

    await page.getByRole('img', { name: /^server 0: at most \d+ at once, 2 in its queue$/ }).waitFor();

    await open('failures?run=sums');
    await page.getByRole('button', { name: 'unknown-tool' }).click();
    await main().getByText('unknown-tool').first().waitFor();
    await main().getByRole('listitem').first().getByRole('link').click();
    await page.getByRole('list', { name: 'Messages' }).getByText('unknown-tool').first().waitFor();
  }, 60_000);

  test('a fork from the page shows its outcomes beside the original', async () => {
    const [original] = (await linesOf(1)) as [Line];
    await open('trajectory?run=sums&step=1&position=0');
    await page.getByRole('button', { name: 'fork here' }).first().click();
    const form = page.getByRole('form', { name: 'Fork at turn 1' });
    await form.getByLabel('Its text').fill('What is 40 and 2?');
    await form.getByLabel('Attempts').fill('3');
    await form.getByRole('button', { name: 'Continue' }).click();
    const right = page.getByRole('region', { name: 'right side' });
    await right.getByText('What is 40 and 2?').waitFor();
    await right.getByText('mean of 3').waitFor();
    await page.getByRole('region', { name: 'left side' }).getByText(original.messages[0]!.content).waitFor();
  }, 60_000);

  test('a crashed run is shown up to its last whole step, over another run', async () => {
    const crashed = join(folder, 'crashed');
    await cp(sums(), crashed, { recursive: true });
    await rm(join(crashed, 'end.json'));
    await rm(join(crashed, 'trajectories', 'step_3.index.json'));
    const metrics = await readFile(join(crashed, 'metrics.jsonl'), 'utf8');
    const named = metrics.replaceAll('reward/right/mean', 'reward/GSM8K/mean');
    await writeFile(join(crashed, 'metrics.jsonl'), named.trim().split('\n').slice(0, 3).join('\n'));
    await appendFile(join(crashed, 'metrics.jsonl'), '\n{"format":1,"step":3,"metr');
    await utimes(join(crashed, 'metrics.jsonl'), 1e9, 1e9);
    await dashboard.close();
    dashboard = await startDashboard({ runs: [sums(), crashed], port: 0, say: () => {} });
    await open('overview');
    await page.getByRole('row', { name: /crashed killed 2 \/ 3/ }).waitFor();
    await page.getByRole('img', { name: /^Reward: sums from .*; crashed from / }).waitFor();
    await page.getByRole('img', { name: /^Processors: sums from .*; crashed from / }).waitFor();
    await page.getByLabel('Find a metric').fill('Gsm8k');
    await page.getByRole('img', { name: /^reward\/GSM8K\/mean: / }).waitFor();
    await open('step?run=crashed');
    await page.getByRole('table', { name: 'Attempts of step 2' }).waitFor();
  }, 60_000);

  test('a step that a resumed run repeats is shown as it is now, without a reload', async () => {
    const resumed = join(folder, 'resumed');
    await cp(sums(), resumed, { recursive: true });
    await dashboard.close();
    dashboard = await startDashboard({ runs: [resumed], port: 0, say: () => {} });
    await open('step?step=3');
    const rows = page.getByRole('table', { name: 'Attempts of step 3' }).getByRole('row');
    await rows.nth(2).waitFor();
    const last = rows.nth((await rows.count()) - 1);
    const metrics = await readMetrics(resumed);
    const index = await readStepIndex(resumed, 3);
    await discardPast(resumed, 2, 'test');
    const again = { ...index, trajectories: index.trajectories.slice(0, 1) };
    for (const part of ['jsonl', 'tokens'])
      await cp(
        join(sums(), 'trajectories', `step_3.${part}`),
        join(resumed, 'trajectories', `step_3.${part}`),
      );
    await writeFile(join(resumed, 'trajectories', 'step_3.index.json'), JSON.stringify(again));
    await appendMetrics(resumed, metrics.at(-1)!);
    await last.waitFor({ state: 'detached' });
    await rows.nth(1).waitFor();
  }, 60_000);

  test('images of tasks, tools and users are kept with the run, sent to the server, and shown, in a report too', async () => {
    const pictures = await import('./runs/pictures.ts');
    const run = join(folder, 'pictures');
    for await (const _ of train(pictures.options(process.env['MODEL']!, run))) {
      // to its end
    }
    const [shown, zoomed, heldUp] = [pictures.SHOWN, pictures.ZOOMED, pictures.HELD_UP].map((bytes) =>
      createHash('sha256').update(bytes).digest('hex'),
    );
    expect((await readdir(join(run, 'blobs'))).sort()).toEqual([shown, zoomed, heldUp].sort());
    const last = pictures.engine.requests.at(-1)!;
    expect(last.images).toEqual([
      { blob: shown, mime: 'image/png', width: 60, height: 30, tokens: 2 },
      { blob: zoomed, mime: 'image/png', width: 30, height: 30, tokens: 1 },
      { blob: heldUp, mime: 'image/png', width: 20, height: 40, tokens: 1 },
    ]);
    const [line] = (await readFile(join(run, 'trajectories', 'step_1.jsonl'), 'utf8')).split('\n');
    expect(JSON.parse(line!).task).toEqual({ name: 'red', picture: { bytes: pictures.SHOWN.length } });

    const sizes = async (viewed: Page) => {
      const images = viewed.getByRole('list', { name: 'Messages' }).getByRole('img');
      await expect.poll(() => images.count()).toBe(3);
      return images.evaluateAll(async (all) => {
        const loaded = all as HTMLImageElement[];
        await Promise.all(loaded.map((image) => image.decode()));
        return loaded.map(({ naturalWidth, naturalHeight }) => [naturalWidth, naturalHeight]);
      });
    };
    const expected = [
      [60, 30],
      [30, 30],
      [20, 40],
    ];
    const other = await startDashboard({ runs: [run], port: 0, say: () => {} });
    try {
      await page.goto(`${other.url}#/trajectory?run=pictures&step=1`);
      expect(await sizes(page)).toEqual(expected);
    } finally {
      await other.close();
    }
    const file = join(folder, 'pictures.html');
    await writeFile(file, await createReport({ runs: [run], trajectories: 2, tokenizerOf }));
    await page.goto(`file://${file}#/trajectory?run=pictures&step=1`);
    expect(await sizes(page)).toEqual(expected);
  }, 60_000);

  test('dark and phone: nothing is wider than the screen', async () => {
    const phone = await browser.newPage({ viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
    phone.on('pageerror', (error) => errors.push(error.message));
    for (const hash of [
      'overview',
      'step?run=sums',
      'trajectory?run=sums',
      'compare',
      'timeline?run=sums',
      'failures',
    ]) {
      await phone.goto(`${dashboard.url}#/${hash}`);
      await phone.getByText('Loading').first().waitFor({ state: 'detached' });
      expect(await phone.evaluate(() => document.documentElement.dataset['theme'])).toBe('dark');
      const width = await phone.evaluate(() => document.documentElement.scrollWidth);
      expect([hash, width]).toEqual([hash, 390]);
    }
    await phone.close();
  }, 60_000);

  test('a report is one file that needs no server', async () => {
    const html = await createReport({ runs: [sums()], trajectories: 4, tokenizerOf });
    const path = join(folder, 'report.html');
    await writeFile(path, html);
    const report = await browser.newPage();
    const asked: string[] = [];
    report.on('request', (request) => asked.push(request.url()));
    report.on('pageerror', (error) => errors.push(error.message));
    await report.goto(`file://${path}#/trajectory?run=sums&step=3&position=0`);
    await report.getByRole('listbox', { name: 'Tokens of segment 1' }).waitFor();
    await report.goto(`file://${path}#/overview`);
    await report.getByRole('img', { name: /^Reward: / }).waitFor();
    expect(asked.filter((url) => !url.startsWith('file:') && !url.startsWith('data:'))).toEqual([]);
    await report.close();
  }, 60_000);
});
