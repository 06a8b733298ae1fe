import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { startStandIn } from '../../test/stand-ins/start.ts';
import type { LaunchCommand, LaunchOptions } from './engine.ts';
import { rollcall } from './engines/rollcall.ts';
import { sglang } from './engines/sglang.ts';
import { vllm } from './engines/vllm.ts';
import { installedRelease } from './installed-engine.ts';
import { startServers } from './launch.ts';
import { launchCommands } from './launch-commands.ts';
import { isPortTaken, portOwner } from './port.ts';
import { SglangServer } from './sglang.ts';

const OPTIONS = {
  model: '/models/m',
  portStart: 30_100,
  replicas: 2,
  tensorParallel: 2,
  memoryShare: 0.6,
  logLevel: 'warning',
} as const;

const open: (() => Promise<void>)[] = [];
afterAll(async () => {
  await Promise.all(open.map((close) => close()));
});

test('each replica gets its port and its share of the visible GPUs', () => {
  const commands = launchCommands(sglang, OPTIONS, { CUDA_VISIBLE_DEVICES: '4,5,6,7' });
  expect(commands.map(({ url, environment }) => [url, environment])).toEqual([
    ['http://127.0.0.1:30100', { CUDA_VISIBLE_DEVICES: '4,5', SGLANG_TIMEOUT_KEEP_ALIVE: '600' }],
    ['http://127.0.0.1:30101', { CUDA_VISIBLE_DEVICES: '6,7', SGLANG_TIMEOUT_KEEP_ALIVE: '600' }],
  ]);
  expect([commands[1]!.program, ...commands[1]!.arguments].join(' ')).toBe(
    'python3 -m sglang.launch_server --model-path /models/m --host 127.0.0.1 --port 30101 --tp 2 ' +
      '--mem-fraction-static 0.6 --log-level warning',
  );
});

test('vLLM is started with the endpoints and the log-probs that a run needs', () => {
  const [command] = launchCommands(vllm, OPTIONS, {}, '0.32.0');
  expect([command!.program, ...command!.arguments].join(' ')).toBe(
    'vllm serve /models/m --host 127.0.0.1 --port 30100 --tensor-parallel-size 2 --gpu-memory-utilization 0.6 ' +
      '--logprobs-mode processed_logprobs --generation-config vllm --enable-prompt-tokens-details ' +
      '--uvicorn-log-level warning --enable-scale-out',
  );
  expect(command!.environment).toMatchObject({
    CUDA_VISIBLE_DEVICES: '0,1',
    VLLM_SERVER_DEV_MODE: '1',
    VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
    VLLM_HTTP_TIMEOUT_KEEP_ALIVE: '600',
  });
});

test('rollcall serve takes the next ports, and no GPU', () => {
  const commands = launchCommands(rollcall, OPTIONS, { CUDA_VISIBLE_DEVICES: '' });
  expect(commands.map(({ url }) => url)).toEqual(['http://127.0.0.1:30100', 'http://127.0.0.1:30101']);
  expect(commands[1]!.arguments.join(' ')).toMatch(
    /bin\/rollcall\.js serve --model \/models\/m --port 30101 --threads [1-9]\d*$/,
  );
});

test('too few GPUs are refused with both counts', () => {
  const launch = () => launchCommands(sglang, OPTIONS, { CUDA_VISIBLE_DEVICES: '0,1,2' });
  expect(launch).toThrow('2 servers of 2 GPUs need 4; visible are 3 (0,1,2)');
});

const script = fileURLToPath(new URL('../../test/stand-ins/sglang.mjs', import.meta.url));
const standIn = (port: number, flags: readonly string[] = [script]): LaunchCommand => ({
  program: process.execPath,
  arguments: flags,
  environment: { PORT: String(port) },
  url: `http://127.0.0.1:${port}`,
});
const ready = async (url: string) => {
  const server = new SglangServer({ url });
  try {
    return await server.ready();
  } finally {
    await server.close();
  }
};

const logDirectory = mkdtempSync(join(tmpdir(), 'rollcall-launch-'));
const told: string[] = [];
const start = (startSeconds: number) => ({
  startSeconds,
  ready,
  logDirectory,
  log: (line: string) => void told.push(line),
});

test('servers are started, answer, and are gone when stopped', async () => {
  const started = await startServers([standIn(38_741), standIn(38_742)], start(20));
  expect(await Promise.all(started.map(({ url }) => ready(url)))).toEqual([true, true]);
  await Promise.all(started.map((server) => server.stop()));
  expect(await Promise.all([38_741, 38_742].map(isPortTaken))).toEqual([false, false]);
});

test('a server that ends shows its last lines, and takes the others along', async () => {
  const dies = standIn(38_744, ['-e', 'console.error("out of memory: 3 GiB needed"); process.exit(3)']);
  const starting = startServers([standIn(38_743), dies], start(20));
  await expect(starting).rejects.toThrow(
    /ended with code 3. Its last lines \(.*server-38744.log\):\nout of memory: 3 GiB needed/,
  );
  expect(await isPortTaken(38_743)).toBe(false);
  const missing = { ...standIn(38_743), program: 'no-such-program-here' };
  await expect(startServers([missing], start(20))).rejects.toThrow(
    /ended with code 127. Its last lines.*ENOENT/s,
  );
});

test('a server that is never ready is given up after its time', async () => {
  const sleeps = standIn(38_745, ['-e', 'console.log("loading"); setInterval(() => {}, 1000)']);
  await expect(startServers([sleeps], start(5))).rejects.toThrow(
    /not ready in 5 s \(servers.startSeconds\). Its last lines .*:\nloading/,
  );
});

test('a taken port is refused with who has it', async () => {
  const other = await startStandIn('sglang');
  open.push(() => other.stop());
  const starting = startServers([standIn(Number(new URL(other.url).port))], start(5));
  const owner = process.platform === 'linux' ? /by process \d+ \(.*sglang\.mjs/ : /is taken/;
  await expect(starting).rejects.toThrow(owner);
});

test('flags follow what is asked and the version that is there', () => {
  const words = (more: Partial<LaunchOptions>, release: string) =>
    launchCommands(vllm, { ...OPTIONS, ...more }, {}, release)[0]!.arguments.join(' ');
  expect(words({}, '0.23.0')).not.toContain('scale-out');
  expect(words({}, '0.31.0')).toContain('--enable-scale-out');
  expect(words({ loraRank: 4 }, '0.32.0')).toContain('--enable-lora --max-lora-rank 8 ');
  expect(words({ sleeps: true }, '0.32.0')).toContain('--enable-sleep-mode');
  expect(words({ flags: ['--dtype', 'float32'] }, '0.32.0')).toMatch(/--dtype float32$/);
  const [command] = launchCommands(
    sglang,
    { ...OPTIONS, loraRank: 4, program: '/venv/python' },
    {},
    '0.5.23',
  );
  expect(command!.program).toBe('/venv/python');
  expect(command!.arguments.join(' ')).toContain(
    '--enable-lora --max-lora-rank 4 --max-loras-per-batch 4 --max-loaded-loras 4 --lora-target-modules q_proj',
  );
});

test('a server that crashes is started again on its port', async () => {
  const [server] = await startServers([standIn(38_746)], start(20));
  const owner = await portOwner(38_746);
  if (owner === undefined) return void (await server!.stop()); // no /proc
  process.kill(Number(/process (\d+)/.exec(owner)![1]), 'SIGKILL');
  while (await isPortTaken(38_746)) await wait(20);
  while (!(await isPortTaken(38_746))) await wait(50);
  expect(told).toEqual([
    expect.stringMatching(/38746: it ended with code 1 \(.*server-38746.log\); it is started again in 1 s/),
  ]);
  await server!.stop();
  expect(await isPortTaken(38_746)).toBe(false);
});

test('the error for an engine that is not installed says how to get it', async () => {
  await expect(installedRelease(vllm, '/nowhere/vllm')).rejects.toThrow(
    '/nowhere/vllm is not found, which starts servers of vllm; install it (pip install vllm)',
  );
  expect(await installedRelease(rollcall)).toBeUndefined();
});
