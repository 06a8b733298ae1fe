/** verl's tools, row by row of its feature table (C), and where we do better. */
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reward, rollout, type Task, type Tool, type Turn, tool, toolLoop } from 'rollcall';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import {
  fromA2aSkills,
  fromMcpTool,
  loadToolFile,
  type ToolSchema,
  toA2aSkills,
  toMcpTool,
  toolsFromConfig,
} from 'rollcall/tools';
import { describe, expect, onTestFinished, test } from 'vitest';

const { tokenizer, format } = byteModel();
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;

async function play(
  tools: readonly Tool[],
  reply: ScriptedEngineOptions['reply'],
  task: Task = {},
  rewards = [reward('one', () => 1)],
) {
  const engine = scriptedEngine({ tokenizer, reply });
  const [group] = await rollout({
    tasks: [{ index: 0, task }],
    attempts: 1,
    step: 1,
    agent: toolLoop({ prompt: 'go', tools }),
    server: engine,
    format,
    rewards,
    seed: 1,
    failures: { tolerateShare: 1 },
  });
  return { ...group!.attempts[0]!, engine };
}

const results = ({ toolRuns }: Turn) => toolRuns.map(({ result }) => result);

async function folder(files: Readonly<Record<string, string>>): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'rollcall-tools-'));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(path, name, '..'), { recursive: true });
    await writeFile(join(path, name), text);
  }
  return path;
}

/** As in verl's examples/sglang_multiturn/config/tool_config/gsm8k_tool_config.yaml. */
const GSM8K_YAML = `tools:
  - class_name: "verl.tools.gsm8k_tool.Gsm8kTool"
    config:
      type: native
    tool_schema:
      type: "function"
      function:
        name: "calc_gsm8k_reward"
        description: "A tool for calculating the reward of gsm8k. (1.0 if parsed answer is correct, 0.0 if parsed answer is incorrect or not correctly parsed)"
        parameters:
          type: "object"
          properties:
            answer:
              type: "string"
              description: "The model's answer to the GSM8K math problem, must be a digits"
          required: ["answer"]
`;

describe('verl 1.C', () => {
  test('C1: a tool YAML loads as written; other types and shapes are refused by name', async () => {
    const path = await folder({
      'gsm8k.yaml': GSM8K_YAML,
      'bad.yaml': 'tool: []',
      'b.json': '{"tools": []}',
    });
    const {
      tools: [gsm8k],
    } = await loadToolFile(join(path, 'gsm8k.yaml'));
    expect(gsm8k!.schema.function).toMatchObject({
      name: 'calc_gsm8k_reward',
      parameters: { required: ['answer'] },
    });
    expect((await loadToolFile(join(path, 'b.json'))).tools).toEqual([]);
    await expect(loadToolFile(join(path, 'bad.yaml'))).rejects.toThrow(/no list under `tools:`/);
    await expect(loadToolFile(join(path, 'none.yaml'))).rejects.toThrow(/none.yaml cannot be read/);
    const load = (entry: object) => toolsFromConfig([entry], { directory: path, source: 'tools.yaml' });
    await expect(
      load({ class_name: 'verl.tools.gsm8k_tool.Gsm8kTool', config: { type: 'rpc' } }),
    ).rejects.toThrow(/tools\[0\]: config.type is "rpc"/);
    await expect(load({ class_name: 'my.pkg.MyTool' })).rejects.toThrow(/name it `path.ts#Export`/);
    await expect(load({ class_name: 'my.ts#MyTool' })).rejects.toThrow(/there is no file .*my.ts/);
    await expect(load({ name: 'weather_station' })).rejects.toThrow(
      /nothing runs the tool 'weather_station'; add `module/,
    );
    await expect(load({ title: 'x' })).rejects.toThrow(/tools\[0\] cannot be read/);
  });

  test('C1: the short form is the ready calculator', async () => {
    const {
      tools: [calculator],
    } = await toolsFromConfig(
      [
        {
          name: 'calculator',
          description: 'A calculator that can evaluate mathematical expressions',
          parameters: {
            type: 'object',
            properties: {
              expression: { type: 'string', description: 'The mathematical expression to evaluate' },
            },
          },
        },
      ],
      { directory: '.', source: 'run.yaml' },
    );
    const calls = ['123 + 456', '2**10', '1,000*3', '0.1+0.2', 'process.exit()', '1/0'];
    const { trajectory } = await play([calculator!], ({ turn }) =>
      turn === 0 ? calls.map((expression) => call('calculator', { expression })).join('') : 'done',
    );
    const [sum, power, thousands, tenths, attack, infinite] = results(trajectory.turns[0]!);
    expect([sum, power, thousands, tenths]).toEqual(['579', '1024', '3000', '0.3']);
    expect(attack).toMatch(/^Error executing tool 'calculator'/);
    expect(infinite).toMatch(/the result is Infinity/);
  });

  test('C2: nested schema keys are kept, defaults are not written into the prompt', async () => {
    const path = await folder({ 'tools.ts': 'export const run = () => "ok";' });
    const parameters = {
      type: 'object',
      properties: { rows: { type: 'array', items: { type: 'object', properties: { n: { minimum: 1 } } } } },
      required: ['rows'],
    };
    const {
      tools: [made],
    } = await toolsFromConfig([{ name: 'rows', description: 'd', parameters, module: 'tools.ts#run' }], {
      directory: path,
      source: 'x',
    });
    expect(made!.schema).toEqual({
      type: 'function',
      function: { name: 'rows', description: 'd', parameters },
    });
  });

  const LIFE = `export const log = [];
    export class Life {
      constructor(config, schema) { log.push(['new', config.size, schema.function.name]); }
      create(id, kwargs) { log.push(['create', id, kwargs]); }
      execute(id, parameters, kwargs) { log.push(['execute', id, parameters, kwargs]); return ['seen', 0.25, { hits: 1 }]; }
      calcReward(id, kwargs) { log.push(['calcReward', id, kwargs]); return 0.5; }
      release(id, kwargs) { log.push(['release', id, kwargs]); }
    }`;

  test('C3, C4: a class tool lives for the whole trajectory, and all four kinds of kwargs reach it', async () => {
    const path = await folder({ 'life.ts': LIFE });
    const { tools } = await toolsFromConfig(
      [
        {
          class_name: 'life.ts#Life',
          config: { type: 'native', size: 3 },
          tool_schema: { type: 'function', function: { name: 'life', description: '' } },
        },
      ],
      { directory: path, source: 'x' },
    );
    const kwargs = {
      create_kwargs: { a: 1 },
      execute_kwargs: { b: 2 },
      calc_reward_kwargs: { c: 3 },
      release_kwargs: { d: 4 },
    };
    const task = { extra_info: { need_tools_kwargs: true, tools_kwargs: { life: kwargs } } };
    const { trajectory } = await play(
      tools,
      ({ turn }) => (turn < 2 ? call('life', { turn }) : 'done'),
      task,
    );
    const { log } = (await import(join(path, 'life.ts'))) as { log: unknown[] };
    const id = trajectory.id;
    expect(log).toEqual([
      ['new', 3, 'life'],
      ['create', id, { a: 1 }],
      ['execute', id, { turn: 0 }, { b: 2 }],
      ['execute', id, { turn: 1 }, { b: 2 }],
      ['calcReward', id, { c: 3 }],
      ['release', id, { d: 4 }],
    ]);
    expect(trajectory.turns[0]!.toolRuns[0]).toMatchObject({
      result: 'seen',
      reward: 0.25,
      metrics: { hits: 1 },
    });
    expect(trajectory.extra.toolScores).toEqual({ life: 0.5 });
    log.length = 0;
    await play(tools, ({ turn }) => (turn < 1 ? call('life') : 'done'), { tool_kwargs: { life: kwargs } });
    expect(log[0]).toEqual(['create', id, { a: 1 }]); // also spelled tool_kwargs
  });

  test('C5: a function is a tool; what it returns becomes text, JSON with its letters kept', async () => {
    const directory = await folder({
      'tools.ts': `export const text = () => 'text';
        export const json = () => ({ städte: ['Köln'] });
        export const number = async () => 4.5;
        export const nothing = () => {};`,
    });
    const names = ['text', 'json', 'number', 'nothing'];
    const { tools } = await toolsFromConfig(
      names.map((name) => ({ name, module: `tools.ts#${name}` })),
      { directory, source: 'x' },
    );
    const { trajectory } = await play(tools, ({ turn }) =>
      turn === 0 ? names.map((name) => call(name)).join('') : 'done',
    );
    expect(results(trajectory.turns[0]!)).toEqual(['text', '{"städte":["Köln"]}', '4.5', '']);
    const missing = toolsFromConfig([{ name: 'x', module: 'tools.ts#x' }], { directory, source: 'x' });
    await expect(missing).rejects.toThrow(/does not export x; it exports .*nothing/);
  });

  test('C7: images of a tool stand before its text, and count with all their tokens', async () => {
    const image = { blob: 'ab', mime: 'image/png', width: 8, height: 8, tokens: 64 };
    const camera = tool({
      name: 'camera',
      description: '',
      input: {},
      run: () => ({ content: 'a cat', images: [image] }),
    });
    const { trajectory, engine } = await play([camera], ({ turn }) =>
      turn === 0 ? call('camera') : 'a cat',
    );
    const [segment] = trajectory.segments;
    expect(segment!.images.map((placed) => placed.image)).toEqual([image]);
    const { at } = segment!.images[0]!;
    expect(tokenizer.decode(segment!.ids.slice(at, at + 6))).toBe('<|image_pad|>a cat');
    expect(engine.requests[1]!.images).toEqual([image]);
  });

  test('C11: step rewards of tools reach the rewards of the trajectory', async () => {
    const steps = tool({
      name: 'step',
      description: '',
      input: {},
      run: () => ({ content: 'ok', reward: 0.25 }),
    });
    const summed = reward('steps', ({ trajectory }) =>
      trajectory.turns.flatMap(({ toolRuns }) => toolRuns).reduce((sum, run) => sum + (run.reward ?? 0), 0),
    );
    const reply: ScriptedEngineOptions['reply'] = ({ turn }) => (turn < 3 ? call('step') : 'done');
    expect((await play([steps], reply, {}, [summed])).reward).toBe(0.75);
  });

  test('C6: names that collide are refused, all of them', async () => {
    const entry = (name: string) => ({ name, module: 'tools.ts#run' });
    const directory = await folder({ 'tools.ts': 'export const run = () => "ok";' });
    const list = ['a', 'b', 'a', 'b', 'c'].map(entry);
    await expect(toolsFromConfig(list, { directory, source: 'x' })).rejects.toThrow("'a', 'b'");
  });

  test('C8, C9: parallel calls answer in order; errors are told, never end the trajectory', async () => {
    const directory = await folder({
      'tools.ts': 'export const good = ({ n }) => n; export const bad = () => { throw new Error("broke"); };',
    });
    const { tools } = await toolsFromConfig(
      ['good', 'bad'].map((name) => ({ name, module: `tools.ts#${name}` })),
      { directory, source: 'x' },
    );
    const { trajectory } = await play(tools, ({ turn }) =>
      turn === 0
        ? call('good', { n: 1 }) + call('bad') + call('solve_equation') + call('good', { n: 2 })
        : 'done',
    );
    expect(results(trajectory.turns[0]!)).toEqual([
      '1',
      "Error executing tool 'bad': broke",
      "Unknown tool 'solve_equation'. Available tools: good, bad.",
      '2',
    ]);
    expect(trajectory.end.kind).toBe('completed');
  });

  test('C10: results are cut in characters where the file says so, named by what is kept', async () => {
    const directory = await folder({ 'tools.ts': 'export const long = () => "abcdefghij";' });
    for (const [keep, expected] of [
      ['head', 'abcd…(6 characters left out)'],
      ['tail', '(6 characters left out)…ghij'],
      ['both ends', 'ab…(6 characters left out)…ij'],
    ] as const) {
      const { tools } = await toolsFromConfig([{ name: 'long', module: 'tools.ts#long' }], {
        directory,
        source: 'x',
        limits: { charactersPerResult: 4, keep },
      });
      const { trajectory } = await play(tools, ({ turn }) => (turn === 0 ? call('long') : 'done'));
      expect(results(trajectory.turns[0]!)).toEqual([expected]);
    }
  });

  test('C12: Gsm8kTool says how good the answer is, and an answer that does not improve costs 0.05', async () => {
    const path = await folder({ 'gsm8k.yaml': GSM8K_YAML });
    const { tools } = await loadToolFile(join(path, 'gsm8k.yaml'));
    const answers = ['41', '#### 1,042', 1042, '40'];
    const task = { toolsKwargs: { calc_gsm8k_reward: { create_kwargs: { ground_truth: '1042' } } } };
    const { trajectory } = await play(
      tools,
      ({ turn }) => (turn < 4 ? call('calc_gsm8k_reward', { answer: answers[turn] }) : '#### 1042'),
      task,
    );
    const runs = trajectory.turns.flatMap(({ toolRuns }) => toolRuns);
    expect(runs.map(({ result, reward: step }) => [result, step])).toEqual([
      ["Current parsed answer='41' reward=0.0", -0.05],
      ["Current parsed answer='#### 1,042' reward=1.0", 0],
      ["Current parsed answer='1042' reward=1.0", -0.05],
      ["Current parsed answer='40' reward=0.0", -0.05],
    ]);
  });

  test('C13: Geo3kTool compares expressions', async () => {
    const { tools } = await toolsFromConfig([{ class_name: 'verl.tools.geo3k_tool.Geo3kTool' }], {
      directory: '.',
      source: 'x',
    });
    const task = {
      toolsKwargs: { calc_geo3k_reward: { create_kwargs: { ground_truth: '2 \\sqrt { 221 }' } } },
    };
    const answers = ['29.73', '2\\sqrt{221}', '\\boxed{\\frac{4\\sqrt{221}}{2}}'];
    const { trajectory } = await play(
      tools,
      ({ turn }) => (turn < 3 ? call('calc_geo3k_reward', { answer: answers[turn] }) : 'done'),
      task,
    );
    const said = trajectory.turns.flatMap(({ toolRuns }) =>
      toolRuns.map(({ result }) => String(result).slice(-3)),
    );
    expect(said).toEqual(['0.0', '1.0', '1.0']);
  });

  async function service(
    answer: (body: Record<string, unknown>, times: number) => { status?: number; json: unknown },
  ) {
    let times = 0;
    const server: Server = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk) => {
        text += chunk;
      });
      request.on('end', () => {
        const { status = 200, json } = answer(JSON.parse(text), ++times);
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/run`;
  }

  test('C14: the sandbox runs code and gives what it printed', async () => {
    const bodies: Record<string, unknown>[] = [];
    const url = await service((body) => {
      bodies.push(body);
      return { json: { run_result: { status: 'Finished', stdout: '4\n', stderr: '' } } };
    });
    const { tools } = await toolsFromConfig(
      [
        {
          class_name: 'verl.tools.sandbox_fusion_tools.SandboxFusionTool',
          config: { sandbox_fusion_url: url, default_timeout: 5, memory_limit_mb: 64 },
        },
      ],
      { directory: '.', source: 'x' },
    );
    const { trajectory } = await play(tools, ({ turn }) =>
      turn === 0 ? call('code_interpreter', { code: '```python\nprint(2+2)\n```' }) : 'done',
    );
    expect(results(trajectory.turns[0]!)).toEqual(['4\n']);
    expect(bodies[0]).toMatchObject({
      code: 'print(2+2)\n',
      language: 'python',
      run_timeout: 5,
      memory_limit_MB: 64,
    });
    await expect(
      toolsFromConfig([{ class_name: 'verl.tools.sandbox_fusion_tools.SandboxFusionTool' }], {
        directory: '.',
        source: 'x',
      }),
    ).rejects.toThrow(/needs config.sandbox_fusion_url/);
  });

  test('C15: the search tool asks again when the service is busy, and formats passages', async () => {
    const url = await service((body, times) => {
      if (times === 1) return { status: 503, json: {} };
      const queries = body.queries as string[];
      return {
        json: {
          result: queries.map((query) => [{ document: { contents: `"${query}"\ntext of ${query}` } }]),
        },
      };
    });
    const { tools } = await toolsFromConfig(
      [{ class_name: 'verl.tools.search_tool.SearchTool', config: { retrieval_service_url: url } }],
      { directory: '.', source: 'x' },
    );
    const { trajectory } = await play(tools, ({ turn }) =>
      turn === 0 ? call('search', { query_list: ['cats', 'dogs'] }) + call('search', {}) : 'done',
    );
    const [found, missing] = trajectory.turns[0]!.toolRuns;
    expect(JSON.parse(String(found!.result))).toEqual({
      result: 'Doc 1 (Title: "cats")\ntext of cats\n---\nDoc 1 (Title: "dogs")\ntext of dogs',
    });
    expect(found!.metrics).toEqual({ query_count: 2, total_results: 2 });
    expect(missing!.problem?.kind).toBe('bad-arguments');
  });

  /** A server that speaks the least of MCP over HTTP: enough to be slow to start and to answer in several parts. */
  async function mcpService(startsAtRequest: number) {
    const times: number[] = [];
    let requests = 0;
    const server = createServer((request, response) => {
      let text = '';
      request.on('data', (chunk) => {
        text += chunk;
      });
      request.on('end', () => {
        if (request.method !== 'POST') return response.writeHead(405).end();
        if (++requests < startsAtRequest) return response.writeHead(503).end();
        const { id, method, params } = JSON.parse(text);
        if (id === undefined) return response.writeHead(202).end();
        const results: Record<string, () => object> = {
          initialize: () => ({
            protocolVersion: params.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: 'fake', version: '1' },
          }),
          'tools/list': () => ({
            tools: ['search', 'write'].map((name) => ({ name, inputSchema: { type: 'object' } })),
          }),
          'tools/call': () => {
            times.push(performance.now());
            const parts = ['one', 'two'].map((part) => ({ type: 'text', text: part }));
            return { content: parts, isError: params.arguments.bad === true };
          },
        };
        const json = JSON.stringify({ jsonrpc: '2.0', id, result: results[method]!() });
        response.writeHead(200, { 'content-type': 'application/json' }).end(json);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, times };
  }

  test('C16: an MCP entry as verl writes it: retried until the server is there, chosen by name, limited in rate', async () => {
    const { url, times } = await mcpService(2);
    const path = await folder({
      'servers.json': JSON.stringify({ mcpServers: { fake: { url } } }),
      'mcp.yaml': `tools:
  - class_name: verl.tools.mcp_search_tool.MCPSearchTool
    config: { rate_limit: 2, timeout: 5, type: mcp }
    mcp: { mcp_servers_config_path: ./servers.json, tool_selected_list: [search] }
`,
    });
    const box = await loadToolFile(join(path, 'mcp.yaml'));
    onTestFinished(() => box.close());
    expect(box.tools.map(({ name }) => name)).toEqual(['search']);
    const { trajectory } = await play(box.tools, ({ turn }) =>
      turn === 0 ? call('search') + call('search', { bad: true }) + call('search') : 'done',
    );
    const { toolRuns } = trajectory.turns[0]!;
    expect(toolRuns.map(({ result, problem }) => [result, problem?.kind])).toEqual([
      ['one\ntwo', undefined],
      ["Error executing tool 'search': one\ntwo", 'tool-threw'],
      ['one\ntwo', undefined],
    ]);
    expect(times).toHaveLength(3);
    expect(times[2]! - times[0]!).toBeGreaterThan(400); // two at once, the third half a second later
  });

  test('C16b: A2A skills become function schemas: with their own where the card has them, one message where not', () => {
    const own: ToolSchema = {
      type: 'function',
      function: {
        name: 'book',
        description: 'Books a flight.',
        parameters: { type: 'object', properties: { to: { enum: ['Rome'] } }, required: ['to'] },
      },
    };
    const { skills, extension } = toA2aSkills([own]);
    expect(skills[0]).toMatchObject({ id: 'book', description: 'Books a flight.' });
    expect(fromA2aSkills(skills, [extension])).toEqual([own]);
    const [plain] = fromA2aSkills(skills);
    expect(plain!.function.parameters).toMatchObject({ type: 'object', required: ['message'] });
    expect(fromMcpTool(toMcpTool(own))).toEqual(own);
  });

  test('C17: the zoom tool shows the pixels in a box, widens boxes too small to see, and names wrong ones', async ({
    skip,
  }) => {
    const canvas = await import('@napi-rs/canvas').catch(() => undefined);
    if (!canvas) return skip('the optional package @napi-rs/canvas is not installed');
    const picture = canvas.createCanvas(100, 80);
    const pen = picture.getContext('2d');
    const colours = [
      ['#ff0000', 0, 0],
      ['#00ff00', 50, 0],
      ['#0000ff', 0, 40],
      ['#ffff00', 50, 40],
    ] as const;
    for (const [colour, x, y] of colours) {
      pen.fillStyle = colour;
      pen.fillRect(x, y, 50, 40);
    }
    const blobs = await folder({});
    const { tools } = await toolsFromConfig(
      [{ class_name: 'verl.tools.image_zoom_in_tool.ImageZoomInTool', config: { type: 'native', blobs } }],
      { directory: '.', source: 'x' },
    );
    const image = { bytes: new Uint8Array(await picture.encode('png')) };
    const task = { toolsKwargs: { image_zoom_in_tool: { create_kwargs: { image } } } };
    const boxes = [
      [50, 0, 100, 40],
      [98, 60, 99, 61],
      [60, 0, 10, 40],
      [200, 0, 300, 40],
    ];
    const zoom = (box: readonly number[]) => call('image_zoom_in_tool', { bbox_2d: box, label: 'a corner' });
    const { trajectory } = await play(
      tools,
      ({ turn }) => (turn < boxes.length ? zoom(boxes[turn]!) : 'done'),
      task,
    );
    const runs = trajectory.turns.flatMap(({ toolRuns }) => toolRuns);
    expect(runs.map(({ reward: step, metrics }) => [step, metrics?.success])).toEqual([
      [0, 1],
      [0, 1],
      [-0.05, 0],
      [-0.05, 0],
    ]);
    expect(runs[0]!.result).toMatchObject([
      { type: 'image', image: { width: 50, height: 40, mime: 'image/png', tokens: 2 } },
      { type: 'text', text: 'Zoomed in on the image to the region [50, 0, 100, 40] with label a corner.' },
    ]);
    expect(runs[1]!.result).toMatchObject([
      { image: { width: 28, height: 28, tokens: 1 } },
      { text: expect.stringContaining('[72, 47, 100, 75]') },
    ]);
    expect(runs[2]!.result).toMatch(/the box \[60, 0, 10, 40\] is empty/);
    expect(runs[3]!.result).toMatch(/outside of the image, which is 100 pixels wide and 80 high/);
    const pixelsOf = async (blob: string): Promise<string[]> => {
      const stored = await canvas.loadImage(join(blobs, blob));
      const look = canvas.createCanvas(stored.width, stored.height).getContext('2d');
      look.drawImage(stored, 0, 0);
      const { data } = look.getImageData(0, 0, stored.width, stored.height);
      return Array.from({ length: data.length / 4 }, (_, at) => data.slice(4 * at, 4 * at + 3).join());
    };
    const [first, second] = trajectory.segments[0]!.images.map((placed) => placed.image.blob);
    expect(await pixelsOf(first!)).toEqual(Array.from({ length: 50 * 40 }, () => '0,255,0'));
    const corner = await pixelsOf(second!);
    expect(corner).toEqual(Array.from({ length: 28 * 28 }, () => '255,255,0'));
    await expect(
      toolsFromConfig(
        [{ class_name: 'verl.tools.image_zoom_in_tool.ImageZoomInTool', config: { blobs: 7 } }],
        { directory: '.', source: 'x' },
      ),
    ).rejects.toThrow('config.blobs is 7; use the path of a folder');
  });
});
