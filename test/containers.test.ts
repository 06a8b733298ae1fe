/** The images are built only where Docker runs; what can be read of them is checked here. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { vllm } from '../src/inference/engines/vllm.ts';
import { PACKAGES } from '../src/torch/environment.ts';

const read = (name: string) => readFileSync(join('containers', name), 'utf8');
const versions = Object.fromEntries(
  [...read('versions.env').matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name!, value!]),
);
const dockerfiles = readdirSync('containers').filter((name) => name.endsWith('Dockerfile'));

test('versions of the images are those that the code pins or was tested with', () => {
  for (const name of ['torch', 'transformers', 'safetensors']) {
    expect(PACKAGES).toContain(`${name}==${versions[`${name.toUpperCase()}_VERSION`]}`);
  }
  expect(PACKAGES.filter((one) => !one.includes('=='))).toEqual(['numpy>=1.26,<3']);
  expect(read('gpu.Dockerfile')).toContain('"numpy>=1.26,<3"');
  expect(vllm.tested).toContain(versions['VLLM_VERSION']);
  expect(readFileSync('docs/servers.md', 'utf8')).toContain(`| vLLM | ${versions['VLLM_VERSION']}, one H200`);
  const { engines } = JSON.parse(readFileSync('package.json', 'utf8')) as { engines: { node: string } };
  const numbers = (text: string) => text.match(/\d+/g)!.map(Number);
  const [major, minor] = numbers(versions['NODE_VERSION']!);
  const [leastMajor, leastMinor] = numbers(engines.node);
  expect([major, minor! >= leastMinor!]).toEqual([leastMajor, true]);
});

test.each(dockerfiles)('%s has no version of its own, no root and a health check', (name) => {
  const lines = read(name).split('\n');
  const has = (start: string) => lines.filter((line) => line.startsWith(start));
  for (const image of has('FROM')) expect(image).toMatch(/:v?\$\{\w+_VERSION\}/);
  for (const argument of has('ARG')) expect(argument).toMatch(/^ARG \w+_VERSION$/);
  expect(has('ARG').every((line) => line.slice(4) in versions)).toBe(true);
  expect(has('USER')).toEqual(['USER 1000:1000']);
  expect(has('HEALTHCHECK')).toHaveLength(1);
  for (const [, file] of read(name).matchAll(/^COPY (\w[\w./-]+) \//gm))
    expect(readdirSync('.')).toContain(file!.split('/')[0]);
});

interface Service {
  readonly build: { readonly dockerfile: string; readonly args: Readonly<Record<string, string>> };
  readonly user: string;
  readonly command: readonly string[];
}

test('the compose file gives each image its versions, and nothing runs as root', () => {
  const { services } = parse(read('compose.yaml'), { merge: true }) as { services: Record<string, Service> };
  expect(Object.keys(services)).toEqual(['server', 'trainer', 'control']);
  for (const { build, user } of Object.values(services)) {
    const wanted = [...read(build.dockerfile.replace('containers/', '')).matchAll(/^ARG (\w+)$/gm)].map(
      ([, name]) => name!,
    );
    expect(Object.keys(build.args).sort()).toEqual([...new Set(wanted)].sort());
    expect(user).toMatch(/^\$\{ROLLCALL_USER:-1000:1000\}$/);
  }
  // The server is started as a run would start it.
  const started = vllm.launch!.command(
    {
      model: 'M',
      portStart: 0,
      replicas: 1,
      tensorParallel: 1,
      memoryShare: 0.5,
      logLevel: 'warning',
      sleeps: false,
    },
    8000,
    versions['VLLM_VERSION'],
  ).arguments;
  const given = services['server']!.command.map((word) => word.split('=')[0]!);
  for (const flag of ['--logprobs-mode', '--generation-config', '--enable-prompt-tokens-details']) {
    expect([started.includes(flag), given.includes(flag)]).toEqual([true, true]);
  }
});

test('the health checks tell a run that has stopped writing, and a port on which nobody listens', async () => {
  const run = mkdtempSync(join(tmpdir(), 'rollcall-alive-'));
  const alive = () =>
    spawnSync(process.execPath, ['containers/is-alive.cjs'], { env: { ...process.env, ROLLCALL_RUN: run } })
      .status;
  expect(alive()).toBe(0);
  writeFileSync(join(run, 'status.json'), '{}');
  expect(alive()).toBe(0);
  utimesSync(join(run, 'status.json'), 1, Date.now() / 1000 - 600);
  expect(alive()).toBe(1);
  writeFileSync(join(run, 'end.json'), '{}');
  expect(alive()).toBe(0);
  rmSync(run, { recursive: true });
  if (process.platform !== 'linux') return;
  const server = createServer();
  const port = await new Promise<number>((done) => {
    server.listen(0, '127.0.0.1', () => done((server.address() as { port: number }).port));
  });
  const listening = () =>
    spawnSync('python3', ['containers/is-listening.py'], {
      env: { ...process.env, ROLLCALL_PORT: String(port) },
    }).status;
  expect(listening()).toBe(0);
  await new Promise((done) => server.close(done));
  expect(listening()).toBe(1);
});
