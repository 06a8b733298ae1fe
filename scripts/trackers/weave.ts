/**
 * One trajectory, sent by PyPI's `weave` client as verl uses it and by `weaveTraces`, recorded by one server. What is
 * sent here is OTLP: W&B's own code turns it into calls, and these are compared with the client's.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { reward, rollout, tool, toolLoop } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { weaveTraces } from 'rollcall/trackers';

const run = promisify(execFile);
const KEY = 'a'.repeat(40);
const PROJECT = 'somebody/proof';
/** The last that came with the code of W&B's server. */
const WITH_SERVER = '0.52.43';
const SCRIPT = resolve('scripts/trackers/weave-calls.py');

interface Recorded {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A call as both sides say it. */
interface Call {
  readonly id: string;
  readonly op_name: string;
  readonly parent_id: string | null;
  readonly started_at: string;
  readonly ended_at: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly inputs: unknown;
  readonly output: unknown;
  readonly exception: string | null;
}

export async function compareWeave(check: (name: string, holds: boolean) => void): Promise<string> {
  const { python, server } = await install();
  const recorded = await record();
  try {
    const environment = {
      WANDB_API_KEY: KEY,
      WANDB_BASE_URL: recorded.url,
      WF_TRACE_SERVER_URL: recorded.url,
    };
    const scored = await trajectory();
    const { trajectory: sent } = scored;
    const [reply] = sent.turns;
    const ids = [...sent.segments[0]!.ids.subarray(reply!.start, reply!.end)];
    const decode = (part: Int32Array) => byteModel().tokenizer.decode(part);
    const texts = {
      prompt: decode(sent.segments[0]!.ids.subarray(0, reply!.start)),
      response: decode(sent.segments[0]!.ids.subarray(reply!.start, reply!.end)),
    };
    const attributes = {
      step: 7,
      sample_index: 4,
      rollout_n: 0,
      validate: false,
      experiment_name: 'letters',
    };
    const generation = { op: 'chat', inputs: { prompt_text: texts.prompt }, output: { token_ids: ids } };
    const tools = reply!.toolRuns.map(({ call, result, problem }) => ({
      op: call.name,
      inputs: call.arguments,
      output: problem ? undefined : result,
      exception: problem?.message,
    }));
    await ask(
      python,
      'client',
      { project: PROJECT, attributes, inputs: {}, output: {}, children: [generation, ...tools] },
      environment,
    );
    for (const text of [false, true]) {
      const tracker = weaveTraces({
        project: 'proof',
        experiment: 'letters',
        entity: 'somebody',
        text,
        environment,
      });
      const memory = { read: async () => undefined, write: async () => {} };
      const { signal } = new AbortController();
      const options = { model: 'byte' };
      await tracker.open!(
        { directory: '', options, resumedAt: undefined, clockBegan: Date.now(), decode, memory },
        signal,
      );
      await tracker.trace!([scored], signal);
    }
    const theirs = recorded.requests
      .filter(({ path }) => path.endsWith('/calls/complete'))
      .flatMap(({ body }) => (JSON.parse(String(body)) as { batch: Call[] }).batch);
    const posts = recorded.requests.filter(({ path }) => path === '/otel/v1/traces');
    const made = await Promise.all(
      posts.map(async ({ body }) => {
        const given = { project: PROJECT, bodies: [body.toString('base64')] };
        return (await ask(python, 'calls', given, { PYTHONPATH: server })) as Call[];
      }),
    );
    const [bare, full] = made as [Call[], Call[]];
    console.log(
      `  weave's client sent ${theirs.length} calls, weaveTraces ${bare.length} spans without and ${full.length} with text`,
    );
    check(
      'Weave: both name the key and the project',
      posts.every(({ headers }) => headers['wandb-api-key'] === KEY && headers['project_id'] === PROJECT) &&
        theirs.length === 1 + 1 + tools.length,
    );
    for (const [what, ours] of [
      ['without text', bare],
      ['with text', full],
    ] as const) {
      check(`Weave ${what}: one root, and everything else below it`, isTree(ours) && isTree(theirs));
      check(
        `Weave ${what}: step, sample, attempt, validation and experiment are on every call, as the client's`,
        [...theirs, ...ours].every((call) =>
          Object.entries(attributes).every(([name, value]) => call.attributes[name] === value),
        ),
      );
      const isAsTheirs = ({ op, inputs, output, exception }: (typeof tools)[number]) => {
        const own = ours.find(({ op_name: name }) => name === `execute_tool ${op}`);
        const client = theirs.find(({ op_name: name }) => name.includes(`/op/${op}:`));
        return [own, client].every((call) =>
          exception === undefined
            ? same(call?.inputs, inputs) && (same(call?.output, output) || same(call?.output, parsed(output)))
            : call?.exception?.includes(exception) === true,
        );
      };
      check(
        `Weave ${what}: tools have the client's inputs and outputs, and fail where they failed`,
        tools.length === 2 && tools.every(isAsTheirs),
      );
      const chat = ours.find(({ op_name: name }) => name === 'chat');
      if (what === 'without text')
        check('Weave without text: a reply has its token ids', same(chat?.output, { token_ids: ids }));
      else
        check(
          'Weave with text: a reply has the text of its prompt and its own',
          textsIn(chat?.inputs).includes(texts.prompt) && textsIn(chat?.output).includes(texts.response),
        );
      check(
        `Weave ${what}: no call ends before it begins`,
        ours.every((call) => call.started_at <= call.ended_at),
      );
    }
    return `weave ${(await run(python, ['-c', 'import importlib.metadata as m; print(m.version("weave"))'])).stdout.trim()}`;
  } finally {
    await recorded.close();
  }
}

const isTree = (calls: readonly Call[]) => {
  const roots = calls.filter(({ parent_id: parent }) => !parent);
  return roots.length === 1 && calls.every((call) => call === roots[0] || call.parent_id === roots[0]!.id);
};

/** A result that is JSON is read by W&B's server. */
const parsed = (text: unknown): unknown => {
  try {
    return JSON.parse(String(text)) as unknown;
  } catch {
    return text;
  }
};

/** Every text in a value, however deep. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

const same = (left: unknown, right: unknown) => JSON.stringify(left) === JSON.stringify(right);

/** A tool that works, one that fails, and an answer. */
async function trajectory() {
  const { tokenizer, format } = byteModel();
  const input = { type: 'object' as const, properties: { a: { type: 'number' as const } } };
  const call = (name: string) => `<tool_call>{"name": "${name}", "arguments": {"a": 2}}</tool_call>`;
  const [group] = await rollout({
    tasks: [{ index: 4, task: {} }],
    attempts: 1,
    step: 7,
    agent: toolLoop({
      prompt: 'Double 2.',
      tools: [
        tool({
          name: 'double',
          description: 'Doubles.',
          input,
          run: ({ a }) => ({ doubled: 2 * Number(a) }),
        }),
        tool({
          name: 'fail',
          description: 'Fails.',
          input,
          run: () => {
            throw new Error('no luck');
          },
        }),
      ],
    }),
    server: scriptedEngine({
      tokenizer,
      reply: ({ turn }) => (turn === 0 ? call('double') + call('fail') : '4'),
    }),
    format,
    rewards: [reward('right', () => 1)],
    seed: 1,
  });
  return group!.attempts[0]!;
}

/** Answers what the client asks for, and keeps everything. */
async function record() {
  const requests: Recorded[] = [];
  const http = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const path = request.url!;
      requests.push({ path, headers: request.headers, body: Buffer.concat(parts) });
      const viewer = { entity: 'somebody', username: 'somebody', defaultEntity: { name: 'somebody' } };
      const answer = path.includes('graphql')
        ? { data: { viewer, project: { name: 'proof' } } }
        : path.includes('server_info')
          ? { min_required_weave_python_version: '0.0.1' }
          : { digest: 'd'.repeat(43) };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((listening) => http.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    requests,
    close: async () => {
      http.closeAllConnections();
      await new Promise((closed) => http.close(closed));
    },
  };
}

async function ask(
  python: string,
  half: 'client' | 'calls',
  given: object,
  environment: Record<string, string>,
) {
  const env = { ...process.env, ...environment };
  const asked = run(python, [SCRIPT, half], { env, maxBuffer: 1 << 26, timeout: 120_000 });
  asked.child.stdin!.end(JSON.stringify(given));
  return JSON.parse((await asked).stdout.trim().split('\n').at(-1)!) as unknown;
}

/** PyPI's newest client in an environment of its own, and the folder of the release with the server's code. */
async function install(): Promise<{ python: string; server: string }> {
  const folder = join(homedir(), '.cache/rollcall/weave');
  const python = join(folder, 'bin/python');
  if (!existsSync(python)) {
    console.log(`installing weave into ${folder}`);
    await run('python3', ['-m', 'venv', folder]);
    await run(python, ['-m', 'pip', 'install', '-q', 'weave'], { timeout: 900_000 });
  }
  const server = join(folder, `server-${WITH_SERVER}`);
  if (!existsSync(join(server, 'weave'))) {
    mkdirSync(server, { recursive: true });
    await run(python, ['-m', 'pip', 'download', '-q', '--no-deps', '-d', server, `weave==${WITH_SERVER}`]);
    const wheel = readdirSync(server).find((name) => name.endsWith('.whl'))!;
    await run(python, ['-m', 'zipfile', '-e', join(server, wheel), server]);
  }
  return { python, server };
}
