/** Pictures of every view for the docs: node --import ./bin/register.js scripts/screenshots.ts RUN [RUN] */
import { mkdir } from 'node:fs/promises';
import { chromium } from 'playwright-core';
import { startDashboard } from '../src/cli/watch.ts';
import { listSteps, readStepIndex } from '../src/watch/trajectory-store.ts';

const runs = process.argv.slice(2);
const { url, close } = await startDashboard({ runs, port: 0 });
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const first = runs[0]!.split('/').at(-1)!;
const step = (await listSteps(runs[0]!)).at(-1)!;
const { trajectories } = await readStepIndex(runs[0]!, step);
const better = trajectories.findIndex(({ advantage }) => (advantage ?? 0) > 0);
const worse = trajectories.findIndex(
  ({ advantage, taskIndex }) => (advantage ?? 0) < 0 && taskIndex === trajectories[better]?.taskIndex,
);
if (better < 0 || worse < 0)
  throw new Error(`step ${step} of ${first} has no group with a better and a worse attempt`);
const { tokens } = trajectories[better]!;
const place = `run=${first}&step=${step}`;
const desktop = { width: 1440, height: 900 };

interface Look {
  readonly dark?: boolean;
  readonly phone?: boolean;
  /** Down to the end of the page. */
  readonly whole?: boolean;
  readonly hover?: string;
}

const VIEWS: [name: string, hash: string, look?: Look][] = [
  ['overview', `#/overview?at=${step}&smooth=0.4`],
  ['overview-one', `#/overview?runs=${first}`, { dark: true, whole: true }],
  ['step', `#/step?${place}&only=spread`],
  [
    'trajectory',
    `#/trajectory?${place}&position=${better}&colour=advantage`,
    { hover: `#token-${tokens - 3}` },
  ],
  [
    'trajectory-dark',
    `#/trajectory?${place}&position=${worse}&colour=log-prob`,
    { dark: true, hover: `#token-${trajectories[worse]!.tokens - 3}` },
  ],
  ['compare', `#/compare?left=${first}:${step}:${worse}&right=${first}:${step}:${better}`],
  ['timeline', `#/timeline?${place}`],
  ['failures', `#/failures?run=${first}`],
  ['phone', `#/trajectory?${place}&position=${better}`, { phone: true }],
];

await mkdir('docs/images', { recursive: true });
try {
  for (const [name, hash, { dark, phone, whole, hover } = {}] of VIEWS) {
    const page = await browser.newPage({
      viewport: phone ? { width: 390, height: 844 } : desktop,
      colorScheme: dark ? 'dark' : 'light',
    });
    page.on('pageerror', (error) => console.error(name, error.message));
    page.on('console', (message) => message.type() === 'error' && console.error(name, message.text()));
    await page.goto(`${url}${hash}`);
    await page.waitForFunction(() => !document.body.textContent?.includes('Loading'));
    await page.waitForTimeout(400);
    if (hover) await page.locator(hover).hover();
    await page.screenshot({ path: `docs/images/watch-${name}.png`, fullPage: whole === true });
    await page.close();
    console.log(`docs/images/watch-${name}.png`);
  }
} finally {
  await browser.close();
  await close();
}
