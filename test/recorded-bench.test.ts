/** `rollcall bench servers` on what real servers answered: their ids, their cached tokens, and more requests than a signal has listeners. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { Recording } from './servers/recorder.ts';

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const recordingOf = (name: string) =>
  JSON.parse(readFileSync(path(`data/servers/${name}.json`), 'utf8')) as Recording;
const AT_ONCE = 24;
const TOKENS = '--prompt-tokens 16 --reply-tokens 6 --result-tokens 4';

/** Gives every call the first good answer to it, whatever its body; replies take a moment. It is gone after `lives` of them. */
async function startAnswers({ pairs }: Recording, lives = Number.POSITIVE_INFINITY) {
  const sent: number[][] = [];
  let inProgress = 0;
  let most = 0;
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const call = `${request.method} ${request.url}`;
    const pair = pairs.find((one) => one.call === call && one.status === 200);
    const { token_ids, input_ids } = (text === '' ? {} : JSON.parse(text)) as Record<string, number[]>;
    const ids = token_ids ?? input_ids;
    if (ids) {
      if (sent.push(ids) > lives) return close();
      most = Math.max(most, ++inProgress);
      await wait(100);
      inProgress--;
    }
    response.writeHead(pair ? 200 : 404, { 'content-type': 'application/json' });
    response.end(typeof pair?.answer === 'string' ? pair.answer : JSON.stringify(pair?.answer ?? {}));
  }).listen(0, '127.0.0.1');
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent,
    most: () => most,
    close,
  };
}

async function bench({ url, engine }: { readonly url: string; readonly engine: string }, sizes: string) {
  const words = `bench servers --url ${url} --engine ${engine} --turns 1,2 ${sizes} --json`;
  const child = spawn(process.execPath, [path('../bin/rollcall.js'), ...words.split(' ')]);
  const said = { out: '', errors: '' };
  child.stdout.on('data', (text) => {
    said.out += text;
  });
  child.stderr.on('data', (text) => {
    said.errors += text;
  });
  const [code] = await once(child, 'close');
  return { ...said, code };
}

test.each(['vllm-0.32.0', 'sglang-0.5.23'])(
  '%s gets only ids of its own tokenizer, its cached tokens are shown, and nothing is warned of',
  async (name) => {
    const recording = recordingOf(name);
    const answers = await startAnswers(recording);
    const sizes = `--trajectories ${AT_ONCE} --concurrency ${AT_ONCE} ${TOKENS}`;
    const { out, errors } = await bench({ url: answers.url, engine: recording.engine }, sizes);
    answers.close();
    expect(errors).toBe('');
    const lines = out.trim().split('\n');
    for (const [at, line] of lines.entries()) {
      expect(JSON.parse(line)).toMatchObject({
        turns: at + 1,
        failed: 0,
        turnP99Seconds: expect.any(Number),
        cached: expect.any(Number),
      });
    }
    expect(lines).toHaveLength(2);
    expect(answers.most()).toBe(AT_ONCE); // a signal has 10 listeners before Node warns
    const answerOf = (step: string) => recording.pairs.find((pair) => pair.step === step)!.answer;
    const { tokens } = answerOf('tokenize') as { tokens: number[] };
    const reply = answerOf('reply') as { output_ids?: number[]; choices?: [{ token_ids: number[] }] };
    const info = recording.pairs.flatMap(({ call, answer }) =>
      call === 'POST /tokenize' ? (answer as { tokens: number[] }).tokens : [],
    );
    const known = new Set([...tokens, ...info, ...(reply.output_ids ?? reply.choices![0].token_ids)]);
    expect(answers.sent).toHaveLength(3 * AT_ONCE);
    expect(answers.sent.flat().filter((id) => !known.has(id))).toEqual([]);
  },
  30_000,
);

test('when the only server is gone, the bench ends in seconds and says so, without a measurement', async () => {
  const { url } = await startAnswers(recordingOf('sglang-0.5.23'), 50);
  const { out, errors, code } = await bench(
    { url, engine: 'sglang' },
    `--trajectories 500 --concurrency 8 ${TOKENS}`,
  );
  expect({ out, code }).toEqual({ out: '', code: 1 });
  expect(errors).toContain(url);
  expect(errors.split('\n').length).toBeLessThan(20);
}, 30_000);
