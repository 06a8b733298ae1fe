import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { byteLevelTokenizerJson, CHATML_TOKENS, templateFile } from '../../test/chat-models.ts';
import { ConfigError } from '../errors.ts';
import { loadChatFormat, loadModelFiles } from './model-files.ts';
import { findModelFolder } from './model-folder.ts';
import { selfTest } from './self-test.ts';

/** A hub of one model, written from the public HTTP interface; shares nothing with src. */
const COMMIT = 'a'.repeat(40);
const files: Record<string, string> = {
  'README.md': '# not wanted',
  'config.json': JSON.stringify({ model_type: 'llama', eos_token_id: 1 }),
  'generation_config.json': JSON.stringify({ eos_token_id: [280, 278] }),
  'tokenizer.json': JSON.stringify(byteLevelTokenizerJson(CHATML_TOKENS)),
  'tokenizer_config.json': JSON.stringify({
    eos_token: { content: '<|im_end|>' },
    chat_template: [
      { name: 'default', template: '{{ messages[0].content }}' },
      { name: 'tool_use', template: templateFile('chatml') },
    ],
  }),
  'model.safetensors': 'weights',
};
const requests: { path: string; token: string | undefined }[] = [];
let isGated = false;
let server: Server;
let endpoint: string;
let home: string;

beforeAll(async () => {
  server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://hub');
    requests.push({ path: pathname, token: request.headers.authorization });
    const json = (value: unknown, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    };
    if (isGated && request.headers.authorization !== 'Bearer secret') return json({ error: 'gated' }, 401);
    if (pathname.startsWith('/api/models/small/chat/revision/')) {
      return json({
        _id: '1',
        id: 'small/chat',
        sha: COMMIT,
        siblings: Object.keys(files).map((rfilename) => ({ rfilename })),
      });
    }
    if (pathname === `/api/models/small/chat/paths-info/${COMMIT}`) {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { paths } = JSON.parse(Buffer.concat(chunks).toString()) as { paths: string[] };
        json(
          paths.map((path) => ({ path, type: 'file', size: files[path]!.length, oid: hash(files[path]!) })),
        );
      });
      return;
    }
    const content = files[pathname.replace(`/small/chat/resolve/${COMMIT}/`, '')];
    if (content === undefined) return json({ error: 'Repository not found' }, 404);
    const bytes = Buffer.from(content);
    const isProbe = request.headers.range === 'bytes=0-0';
    response.writeHead(isProbe ? 206 : 200, {
      etag: `"${hash(content)}"`,
      'content-length': isProbe ? 1 : bytes.length,
      ...(isProbe && { 'content-range': `bytes 0-0/${bytes.length}` }),
    });
    response.end(isProbe ? bytes.subarray(0, 1) : bytes);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'rollcall-hub-'));
  requests.length = 0;
  isGated = false;
  return () => rmSync(home, { recursive: true, force: true });
});

const hash = (text: string) => createHash('sha1').update(text).digest('hex');
const environment = (more: Record<string, string> = {}) => ({
  HF_HOME: home,
  HF_ENDPOINT: endpoint,
  ...more,
});

test('a hub name is fetched through the cache that Python shares, without its weights, quietly', async () => {
  const spoken = vi.spyOn(console, 'debug').mockImplementation(() => {});
  const model = await loadModelFiles('small/chat', { environment: environment() });
  const storage = join(home, 'hub', 'models--small--chat');
  expect(model.folder).toBe(join(storage, 'snapshots', COMMIT));
  expect(readdirSync(model.folder).sort()).toEqual(
    ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'].sort(),
  );
  expect(readFileSync(join(storage, 'refs', 'main'), 'utf8')).toBe(COMMIT);
  expect(readdirSync(join(storage, 'blobs'))).toContain(hash(files['config.json']!));
  expect(model.eosIds).toEqual([280, 278]);
  expect(Object.keys(model.templates)).toEqual(['default', 'tool_use']);
  expect(spoken).not.toHaveBeenCalled();
  spoken.mockRestore();
});

test('weights come when they are asked for', async () => {
  const folder = await findModelFolder('small/chat', { weights: true, environment: environment() });
  expect(readFileSync(join(folder, 'model.safetensors'), 'utf8')).toBe('weights');
});

test('offline mode uses the cache alone and says what is missing', async () => {
  await findModelFolder('small/chat', { environment: environment() });
  requests.length = 0;
  const offline = environment({ HF_HUB_OFFLINE: '1' });
  const format = await loadChatFormat('small/chat', { environment: offline });
  expect(selfTest(format, { tools: true }).passed).toBe(true);
  expect(requests).toEqual([]);
  await expect(findModelFolder('small/other', { environment: offline })).rejects.toThrow(
    'HF_HUB_OFFLINE is set',
  );
});

test('without a network, what is in the cache is used', async () => {
  const before = await findModelFolder('small/chat', { environment: environment() });
  const gone = environment({ HF_ENDPOINT: 'http://127.0.0.1:9' });
  expect(await findModelFolder('small/chat', { environment: gone })).toBe(before);
  await expect(findModelFolder('small/other', { environment: gone })).rejects.toThrow('is the network up?');
});

test('HF_TOKEN opens a gated model, and a refusal names it', async () => {
  isGated = true;
  await expect(findModelFolder('small/chat', { environment: environment() })).rejects.toThrow(
    'HF_TOKEN must hold a token',
  );
  await findModelFolder('small/chat', { environment: environment({ HF_TOKEN: 'secret' }) });
  writeFileSync(join(home, 'token'), 'secret\n');
  const other = environment({ HF_HUB_CACHE: join(home, 'elsewhere') });
  expect(await findModelFolder('small/chat', { environment: other })).toContain('elsewhere');
});

test('a missing model names the folder that was tried and the hub', async () => {
  const asked = findModelFolder('small/none', { environment: environment() });
  await expect(asked).rejects.toThrow(ConfigError);
  await expect(asked).rejects.toThrow(
    /no folder .*small\/none, and http.* says: 404: there is no such model/,
  );
  await expect(findModelFolder('./models/none')).rejects.toThrow(
    /no folder .*models\/none, and only a name with one slash/,
  );
});

test('an abort reaches the download', async () => {
  const asked = findModelFolder('small/chat', {
    environment: environment(),
    signal: AbortSignal.abort(new Error('stopped')),
  });
  await expect(asked).rejects.toThrow('stopped');
});

test('a local folder needs no hub; chat_template.jinja wins over the configuration', async () => {
  const folder = join(home, 'model');
  mkdirSync(folder);
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'config.json']) {
    writeFileSync(join(folder, name), files[name]!);
  }
  expect(Object.keys((await loadModelFiles(folder)).templates)).toEqual(['default', 'tool_use']);
  writeFileSync(join(folder, 'chat_template.jinja'), 'from the file');
  const model = await loadModelFiles(folder);
  expect(model.templates).toEqual({ default: 'from the file' });
  expect(model.eosIds).toEqual([1]);
  rmSync(join(folder, 'tokenizer.json'));
  await expect(loadModelFiles(folder)).rejects.toThrow('has no tokenizer.json');
  writeFileSync(join(folder, 'tokenizer.json'), '{');
  await expect(loadModelFiles(folder)).rejects.toThrow(/tokenizer.json is not valid JSON/);
});

test('a folder as the Python libraries write it loads', async () => {
  const { templates, tokenizer } = await loadModelFiles('test/golden/chat/qwen3');
  expect(templates.default).toContain('<|im_start|>');
  expect(tokenizer.eosId).toBe(tokenizer.tokenId('<|im_end|>'));
});
