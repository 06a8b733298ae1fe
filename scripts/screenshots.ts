/** Pictures of every view for the docs: node --import ./bin/register.js scripts/screenshots.ts RUN [RUN] */
import { mkdir } from 'node:fs/promises';
import { chromium } from 'playwright-core';
import { startDashboard } from '../src/cli/watch.ts';

const runs = process.argv.slice(2);
const { url, close } = await startDashboard({ runs, port: 0 });
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const first = runs[0]!.split('/').at(-1)!;
const place = `run=${first}&step=3`;
const desktop = { width: 1440, height: 900 };

const VIEWS: [name: string, hash: string, options?: { dark?: boolean; phone?: boolean; hover?: string }][] = [
  ['overview', '#/overview?at=10&smooth=0.4'],
  ['overview-one', `#/overview?runs=${first}`, { dark: true }],
  ['step', `#/step?${place}`],
  ['trajectory', `#/trajectory?${place}&position=9&colour=advantage`, { hover: '#token-70' }],
  ['trajectory-dark', `#/trajectory?${place}&position=9&colour=log-prob`, { dark: true, hover: '#token-68' }],
  ['compare', `#/compare?left=${first}:3:4&right=${first}:3:0`],
  ['timeline', `#/timeline?${place}`],
  ['failures', `#/failures?run=${first}`],
  ['phone', `#/trajectory?${place}&position=9`, { phone: true }],
];

await mkdir('docs/images', { recursive: true });
try {
  for (const [name, hash, { dark, phone, hover } = {}] of VIEWS) {
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
    await page.screenshot({ path: `docs/images/watch-${name}.png` });
    await page.close();
    console.log(`docs/images/watch-${name}.png`);
  }
} finally {
  await browser.close();
  await close();
}
