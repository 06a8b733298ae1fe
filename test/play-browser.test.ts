import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { loadChatFormat } from 'rollcall';
import { expect, test } from 'vitest';
import { openServer } from '../src/engine/server.ts';
import { PLAIN_SAMPLING } from '../src/lib/plain-sampling.ts';
import { CHROMIUM } from './chromium.ts';
import { command } from './command.ts';
import { tinyModel } from './tiny-model.ts';

test.skipIf(!CHROMIUM)(
  'the page of report --play, opened from its folder, writes the tokens that the engine samples',
  { timeout: 60_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'rollcall-play-'));
    const model = await tinyModel();
    expect(await command('report', model, '--play', folder)).toMatchObject({ status: 0 });

    const format = await loadChatFormat(model);
    const server = await openServer({ model, threads: 1, kernels: 'wasm' });
    const { ids } = await server.generate({
      id: 'same',
      trajectory: 'same',
      prompt: format.renderPrompt([{ role: 'user', content: 'three?' }], []).ids,
      sampling: {
        ...PLAIN_SAMPLING,
        temperature: 0,
        maxTokens: 128,
        stopIds: format.stopIds,
        seed: 1,
      },
    });
    await server.close();

    const browser = await chromium.launch({ executablePath: CHROMIUM!, args: ['--no-sandbox'] });
    try {
      const page = await browser.newPage();
      const errors: string[] = [];
      page.on('pageerror', (error) => errors.push(error.message));
      await page.goto(pathToFileURL(join(folder, 'index.html')).href);
      await page.getByPlaceholder('Ask something').fill('three?');
      const state = page.getByRole('status');
      await expect.poll(() => state.textContent(), { timeout: 20_000 }).toBe('');
      await page.getByRole('button', { name: 'Ask' }).click();
      await expect.poll(() => page.locator('.model i').count(), { timeout: 20_000 }).toBe(ids.length);
      await expect.poll(() => state.textContent(), { timeout: 20_000 }).toBe('');
      expect(await page.locator('.model span').textContent()).toBe(format.decode(ids));
      expect(errors).toEqual([]);
    } finally {
      await browser.close();
      await rm(folder, { recursive: true });
    }
  },
);
