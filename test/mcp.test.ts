/** Real MCP servers (our own, `rollcall tools serve`), over both transports, some of them killed. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { rollout, toolLoop } from 'rollcall';
import { encodePng, memoryImages } from 'rollcall/services';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import {
  fromA2aSkills,
  fromMcpTool,
  loadToolFile,
  type McpServerConfig,
  mcpTools,
  type ToolBox,
  type ToolSchema,
  toA2aSkills,
  toMcpTool,
} from 'rollcall/tools';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';

const { tokenizer, format } = byteModel();
vi.setConfig({ testTimeout: 120_000 }); // programs are started, and machines are shared
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;
const ROLLCALL = resolve('bin/rollcall.js');

const PHOTO = Buffer.from(encodePng({ width: 2, height: 1, rgb: new Uint8Array(6) })).toString('base64');

const TOOLS = `
import { tool } from 'rollcall';
import { appendFileSync } from 'node:fs';
const log = (line) => appendFileSync(new URL('./log.txt', import.meta.url), line + '\\n');
export const tools = [
  tool({
    name: 'add', description: 'Adds.',
    input: { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object',
             properties: { a: { type: 'number' }, b: { type: 'number', minimum: 0 } }, required: ['a', 'b'] },
    run: ({ a, b }) => { log('add'); return a + b; },
  }),
  tool({ name: 'die', description: '', input: { type: 'object' }, run: () => { log('die'); process.exit(1); } }),
  tool({ name: 'photo', description: '', input: { type: 'object' }, run: async (_, { image }) => {
    const bytes = Buffer.from('${PHOTO}', 'base64');
    return { content: 'Here.', images: [await image(bytes)] };
  } }),
  tool({ name: 'fail', description: '', input: { type: 'object' }, run: () => { throw new Error('no luck'); } }),
  tool({ name: 'count', description: '', input: { type: 'object' },
         open: () => ({ n: 0 }), run: (_, { state }) => ++state.n, close: ({ state }) => log('closed ' + state.n) }),
];`;

let folder: string;
const boxes: ToolBox[] = [];
const children: ChildProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-mcp-'));
  await writeFile(join(folder, 'tools.ts'), TOOLS);
});

afterEach(async () => {
  await Promise.all(boxes.splice(0).map((box) => box.close()));
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

const stdio = (): McpServerConfig => ({
  command: process.execPath,
  args: [ROLLCALL, 'tools', 'serve', `${join(folder, 'tools.ts')}#tools`],
});

async function serveHttp(port = 0, ...more: string[]): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [
    ROLLCALL,
    'tools',
    'serve',
    `${join(folder, 'tools.ts')}#tools`,
    '--http',
    String(port),
    ...more,
  ]);
  children.push(child);
  const url = await new Promise<string>((found, failed) => {
    let text = '';
    child.stdout!.on('data', (chunk) => {
      text += chunk;
      const at = /at (http:\S+)/.exec(text)?.[1];
      if (at) found(at);
    });
    child.stderr!.on('data', (chunk) => failed(new Error(String(chunk))));
  });
  return { child, url };
}

async function open(servers: Record<string, McpServerConfig>, names?: readonly string[]): Promise<ToolBox> {
  const box = await mcpTools({ servers, callsPerSecond: 1000, connectTries: 2, ...(names && { names }) });
  boxes.push(box);
  return box;
}

async function play(box: ToolBox, reply: ScriptedEngineOptions['reply'], attempts = 1) {
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts,
    step: 1,
    agent: toolLoop({ prompt: 'go', tools: box.tools }),
    server: scriptedEngine({ tokenizer, reply }),
    images: memoryImages(),
    format,
    rewards: [],
    seed: 1,
    failures: { tolerateShare: 1, retries: 0 },
  });
  return group!.attempts.map(({ trajectory }) => trajectory);
}

const childrenOf = async () => {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)]);
  return stdout.split('\n').filter((line) => line.includes('tools serve')).length;
};

test('tools of a server on stdio are tools, mistakes included', async () => {
  const box = await open({ ours: stdio() });
  expect(box.tools.map(({ name }) => name)).toEqual(['add', 'die', 'photo', 'fail', 'count']);
  expect(box.tools[0]!.schema.function.parameters).not.toHaveProperty('$schema');
  expect(box.tools[0]!.schema.function.parameters).toHaveProperty('properties.b.minimum', 0);
  const [trajectory] = await play(box, ({ turn }) =>
    turn === 0
      ? call('add', { a: 2, b: 3 }) +
        call('add', { a: 2, b: -1 }) +
        call('fail') +
        call('count') +
        call('count') +
        call('photo')
      : 'done',
  );
  const { toolRuns } = trajectory!.turns[0]!;
  expect(toolRuns.map(({ result }) => result)).toEqual([
    '5',
    "Invalid arguments for 'add': b: must be >= 0.",
    "Error executing tool 'fail': no luck",
    '1',
    '2',
    [
      {
        type: 'image',
        image: {
          blob: createHash('sha256').update(Buffer.from(PHOTO, 'base64')).digest('hex'),
          mime: 'image/png',
          width: 2,
          height: 1,
          tokens: 1,
        },
      },
      { type: 'text', text: 'Here.' },
    ],
  ]);
});

test('a server that dies during a call is told to the model, called once, and started again for the next', async () => {
  await writeFile(join(folder, 'log.txt'), '');
  const box = await open({ ours: stdio() });
  const [trajectory] = await play(box, ({ turn }) =>
    turn === 0 ? call('die') : turn === 1 ? call('add', { a: 1, b: 1 }) : 'done',
  );
  expect(trajectory!.end.kind).toBe('completed');
  expect(trajectory!.turns[0]!.toolRuns[0]!.problem?.kind).toBe('tool-threw');
  expect(trajectory!.turns[0]!.toolRuns[0]!.result).toMatch(/connection to 'ours' broke during the call/);
  expect(trajectory!.turns[1]!.toolRuns[0]!.result).toBe('2');
  expect(await readFile(join(folder, 'log.txt'), 'utf8')).toBe('die\nadd\n');
});

test('a server over HTTP that is killed is the environment failing; once it is back, so are its tools', async () => {
  const { child, url } = await serveHttp();
  const box = await open({ web: { url } });
  const add: ScriptedEngineOptions['reply'] = ({ turn }) =>
    turn === 0 ? call('add', { a: 4, b: 5 }) : 'done';
  const result = async () => (await play(box, add))[0]!;
  expect((await result()).turns[0]!.toolRuns[0]!.result).toBe('9');
  child.kill('SIGKILL');
  await new Promise((gone) => child.once('exit', gone));
  const broken = await result(); // the connection broke under the call
  expect(broken.turns[0]!.toolRuns[0]?.problem?.kind ?? broken.end.kind).toMatch(/tool-threw|failed/);
  expect((await result()).end).toMatchObject({ kind: 'failed', boundary: 'environment' });
  await serveHttp(Number(new URL(url).port));
  expect((await result()).turns[0]!.toolRuns[0]!.result).toBe('9');
});

test('several servers, a filter by name, a name that nobody offers', async () => {
  const { url } = await serveHttp();
  const box = await open({ web: { url } }, ['fail', 'add']);
  expect(box.tools.map(({ name }) => name)).toEqual(['add', 'fail']);
  await expect(open({ web: { url } }, ['subtract'])).rejects.toThrow(
    /no MCP server offers subtract; they offer add, die, photo, fail, count/,
  );
  await expect(open({ web: { url: 'http://127.0.0.1:9/mcp' } })).rejects.toThrow(/'web' cannot be reached/);
});

test("verl's MCP entry of a tool file opens the servers of its JSON file", async () => {
  await writeFile(join(folder, 'servers.json'), JSON.stringify({ mcpServers: { ours: stdio() } }));
  await writeFile(
    join(folder, 'mcp.yaml'),
    `tools:
  - class_name: verl.tools.mcp_search_tool.MCPSearchTool
    config: { rate_limit: 120, timeout: 60, type: mcp }
    mcp:
      mcp_servers_config_path: ./servers.json
      tool_selected_list: [add]
`,
  );
  const box = await loadToolFile(join(folder, 'mcp.yaml'));
  boxes.push(box);
  expect(box.tools.map(({ name }) => name)).toEqual(['add']);
});

test('a session over HTTP that is silent too long is closed with its tools; the next call begins a new one', async () => {
  await writeFile(join(folder, 'log.txt'), '');
  const { url } = await serveHttp(0, '--idle-minutes', '0.02');
  const box = await open({ web: { url } });
  const count: ScriptedEngineOptions['reply'] = ({ turn }) => (turn < 2 ? call('count') : 'done');
  const results = async () =>
    (await play(box, count))[0]!.turns.flatMap(({ toolRuns }) => toolRuns.map(({ result }) => result));
  expect(await results()).toEqual(['1', '2']);
  await vi.waitFor(
    async () => expect(await readFile(join(folder, 'log.txt'), 'utf8')).toBe('closed 2\n'),
    15_000,
  );
  expect(await results()).toEqual([
    expect.stringContaining("connection to 'web' broke during the call"),
    '1',
  ]);
});

/** What this process holds open, by kind, and its file descriptors. Timers of the test runner come and go. */
const openHandles = async () => {
  const kinds = process.getActiveResourcesInfo().filter((kind) => kind !== 'Timeout' && kind !== 'Immediate');
  const descriptors = process.platform === 'linux' ? (await readdir('/proc/self/fd')).length : 0;
  return { kinds: kinds.sort(), descriptors };
};

/** `npm run prove mcp` takes a thousand. */
const MANY = Number(process.env.ROLLCALL_TRAJECTORIES ?? 100);

const anyTool: ScriptedEngineOptions['reply'] = ({ turn, random }) =>
  turn === 0 ? call(random.pick(['add', 'fail', 'count']), { a: 1, b: 2 }) : 'done';

test('many trajectories through one server leave no process and no handle, and only one was ever needed', async () => {
  const before = await childrenOf();
  await (await open({ ours: stdio() })).close(); // what is loaded once stays
  const handles = await vi.waitFor(settledHandles, 10_000);
  const box = await open({ ours: stdio() });
  const opened = await openHandles();
  const trajectories = await play(box, anyTool, MANY);
  expect(trajectories).toHaveLength(MANY);
  expect(trajectories.every(({ end }) => end.kind === 'completed')).toBe(true);
  expect(await childrenOf()).toBe(before + 1);
  await vi.waitFor(async () => expect(await openHandles()).toEqual(opened), 5_000); // none for a trajectory
  await box.close();
  expect(await childrenOf()).toBe(before);
  await vi.waitFor(async () => expect(await openHandles()).toEqual(handles), 5_000);
});

test('many trajectories over HTTP leave no handle', async () => {
  const once = await serveHttp();
  await (await open({ web: { url: once.url } })).close();
  await stopped(once.child);
  const handles = await vi.waitFor(settledHandles, 10_000);
  const { child, url } = await serveHttp();
  const box = await open({ web: { url } });
  const trajectories = await play(box, anyTool, MANY);
  expect(trajectories.every(({ end }) => end.kind === 'completed')).toBe(true);
  await box.close();
  await stopped(child);
  await vi.waitFor(async () => expect(await openHandles()).toEqual(handles), 10_000);
});

async function stopped(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once('close', resolve));
  child.kill('SIGTERM');
  await gone;
}

/** The same twice in a row. */
async function settledHandles() {
  const first = await openHandles();
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(await openHandles()).toEqual(first);
  return first;
}

const anyJson = fc.dictionary(fc.string({ minLength: 1, maxLength: 5 }), fc.jsonValue({ maxDepth: 3 }));
const anySchema: fc.Arbitrary<ToolSchema> = fc.record({
  type: fc.constant('function' as const),
  function: fc.record({
    name: fc.stringMatching(/^[a-z_]{1,20}$/),
    description: fc.string(),
    parameters: fc.record({
      type: fc.constant('object'),
      properties: fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), anyJson),
      required: fc.array(fc.string()),
    }),
  }),
});

test('function schema, MCP tool and A2A skill turn into one another and back, nested keys kept', () => {
  fc.assert(
    fc.property(fc.uniqueArray(anySchema, { selector: (schema) => schema.function.name }), (schemas) => {
      expect(schemas.map(toMcpTool).map(fromMcpTool)).toEqual(schemas);
      const { skills, extension } = toA2aSkills(schemas);
      expect(fromA2aSkills(skills, [extension])).toEqual(schemas);
      for (const schema of fromA2aSkills(skills))
        expect(schema.function.parameters.required).toEqual(['message']);
    }),
  );
});
