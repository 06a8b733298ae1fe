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
const AT_ONCE = 24;

/** Gives every call the first good answer to it, whatever its body, and holds replies until many are asked for. */
async function startAnswers({ pairs }: Recording) {
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
      sent.push(ids);
      most = Math.max(most, ++inProgress);
      await wait(100);
      inProgress--;
    }
    response.writeHead(pair ? 200 : 404, { 'content-type': 'application/json' });
    response.end(typeof pair?.answer === 'string' ? pair.answer : JSON.stringify(pair?.answer ?? {}));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent,
    most: () => most,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

test.each(['vllm-0.32.0', 'sglang-0.5.23'])(
  '%s gets only ids of its own tokenizer, its cached tokens are shown, and nothing is warned of',
  async (name) => {
    const recording = JSON.parse(readFileSync(path(`data/servers/${name}.json`), 'utf8')) as Recording;
    const answers = await startAnswers(recording);
    const sizes = `--trajectories ${AT_ONCE} --concurrency ${AT_ONCE} --prompt-tokens 16 --reply-tokens 6 --result-tokens 4`;
    const words = `bench servers --url ${answers.url} --engine ${recording.engine} --turns 1,2 ${sizes} --json`;
    const child = spawn(process.execPath, [path('../bin/rollcall.js'), ...words.split(' ')]);
    let [out, errors] = ['', ''];
    child.stderr.on('data', (text) => {
      errors += text;
    });
    child.stdout.on('data', (text) => {
      out += text;
    });
    await once(child, 'close');
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
