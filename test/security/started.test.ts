/**
 * `serve` and `watch` as a person starts them, with TLS files and a key, and attacks over the wire. The same commands without these
 * options are the control. Each starts a process, so `npm test` makes only the first; `npm run prove security` makes all.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import { LOCALHOST_CERTIFICATE } from '../../testing/localhost-certificate.ts';
import { tinyModel } from '../tiny-model.ts';

const ALL = process.env['ROLLCALL_ATTACKS'] === 'all';
const KEY = 'a-key-of-the-server';
const bin = fileURLToPath(new URL('../../bin/rollcall.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'rollcall-started-'));
const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
writeFileSync(cert, LOCALHOST_CERTIFICATE.cert);
writeFileSync(key, LOCALHOST_CERTIFICATE.key);
const TLS = ['--tls-cert', cert, '--tls-key', key];

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** Starts a command and gives the address that it prints. */
async function start(...words: readonly string[]): Promise<URL> {
  const child = spawn(process.execPath, [bin, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  stops.push(async () => {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
  });
  for await (const line of createInterface(child.stdout)) {
    const url = /https?:\/\/\S+/.exec(line)?.[0];
    if (url === undefined) continue;
    child.stdout.resume();
    return new URL(url);
  }
  throw new Error(`${words.join(' ')} ended before it listened`);
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** 0: no answer that is HTTP. */
function ask(url: URL, headers: Record<string, string> = {}, body?: Buffer): Promise<Answer> {
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  const options = { headers, method: body ? 'POST' : 'GET', ca: LOCALHOST_CERTIFICATE.cert, timeout: 20_000 };
  return new Promise((resolve) => {
    const none = () => resolve({ status: 0, text: '' });
    const request = send(url, options, (response) => {
      let text = '';
      response.on('data', (part) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', none);
    });
    request.on('error', none);
    request.end(body);
  });
}

const bearer = { authorization: `Bearer ${KEY}` };
const at = (url: URL, path: string, protocol = url.protocol) => new URL(path, `${protocol}//${url.host}`);

test('watch with TLS files speaks TLS and nothing else, and asks for its key', {
  timeout: 120_000,
}, async () => {
  writeFileSync(join(folder, 'options.json'), '{}');
  const url = await start('watch', folder, '--port', '0', '--api-key', KEY, ...TLS);
  expect(url.protocol).toBe('https:');
  expect(await ask(at(url, '/api/runs'), bearer)).toMatchObject({ status: 200 });
  expect(await ask(at(url, '/api/runs'))).toMatchObject({ status: 401 });
  expect(await ask(at(url, '/api/runs', 'http:'), bearer)).toMatchObject({ status: 0 });
});

if (ALL) {
  test('watch without them speaks in the clear', { timeout: 120_000 }, async () => {
    writeFileSync(join(folder, 'options.json'), '{}');
    const url = await start('watch', folder, '--port', '0');
    expect(url.protocol).toBe('http:');
    expect(await ask(at(url, '/api/runs'))).toMatchObject({ status: 200 });
    expect(await ask(at(url, '/api/runs'), { host: 'evil.example' })).toMatchObject({ status: 403 });
  });

  test('serve with TLS files and a key refuses what serve without them answers', {
    timeout: 180_000,
  }, async () => {
    const model = await tinyModel();
    const usual = ['serve', '--model', model, '--port', '0', '--threads', '1'];
    const guarded = await start(...usual, '--api-key', KEY, ...TLS);
    const open = await start(...usual);
    expect(await ask(at(guarded, '/v1/models'), bearer)).toMatchObject({ status: 200 });
    const generate = Buffer.from(JSON.stringify({ prompt: 'a', max_tokens: 1 }));
    const json = (body: Buffer) => ({
      'content-type': 'application/json',
      'content-length': String(body.length),
    });
    expect(
      (await ask(at(guarded, '/v1/completions'), { ...bearer, ...json(generate) }, generate)).status,
    ).toBe(200);

    expect(await ask(at(open, '/v1/models'))).toMatchObject({ status: 200 });
    expect(await ask(at(guarded, '/v1/models'))).toMatchObject({ status: 401 });
    expect(await ask(at(guarded, '/v1/models', 'http:'), bearer)).toMatchObject({ status: 0 });
    const evil = { ...bearer, origin: 'https://evil.example' };
    expect(await ask(at(guarded, '/v1/models'), evil)).toMatchObject({ status: 403 });

    // A packed body is not unpacked: what it would unfold to does not matter.
    const bomb = gzipSync(Buffer.alloc(50 * 2 ** 20, ' '));
    const packed = { ...json(bomb), 'content-encoding': 'gzip' };
    expect(await ask(at(open, '/v1/completions'), packed, bomb)).toMatchObject({ status: 400 });
    const lie = { 'content-length': String(2 ** 40), 'content-type': 'application/json' };
    expect(await ask(at(open, '/v1/completions'), lie, Buffer.from('{}'))).toMatchObject({ status: 413 });
  });

  test('beyond loopback requests change no weights, even with the key', { timeout: 120_000 }, async () => {
    const model = await tinyModel();
    const url = await start(
      'serve',
      '--model',
      model,
      '--port',
      '0',
      '--threads',
      '1',
      '--host',
      '0.0.0.0',
      '--api-key',
      KEY,
    );
    const body = Buffer.from(JSON.stringify({ model_path: '/nowhere' }));
    const headers = { ...bearer, 'content-length': String(body.length) };
    const there = new URL(`http://127.0.0.1:${url.port}/update_weights_from_disk`);
    expect(await ask(there, headers, body)).toMatchObject({ status: 403 });
    expect(await ask(new URL('/v1/models', there))).toMatchObject({ status: 401 });
    const allowed = await start('serve', '--model', model, '--port', '0', '--threads', '1');
    const answer = await ask(at(allowed, '/update_weights_from_disk'), headers, body);
    expect(answer.status).not.toBe(403); // on loopback it is tried
  });
}
