/**
 * A command-line coding agent from npm, opencode, unmodified: a process of its own that knows the policy by its base URL. An
 * engine that plays fitting tool calls stands in for a model, since none that runs here could do such an agent's work. It
 * hands a job to a sub-agent, loses a connection in the middle of a reply, and outgrows its context.
 */
import { mkdir, readFile } from 'node:fs/promises';
import { createServer, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { rollout, type Trajectory } from 'rollcall';
import { processAgent } from 'rollcall/agents';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { type Aim, atLeast, holds } from '../verdict.ts';

/** The request whose reply is cut: the first of the sub-agent, after the title and the main agent's own. */
const CUT = 3;
const JOB = 'Write the number 42 into answer.txt in this folder.';
const SUMMARY = 'A sub-agent wrote answer.txt, which holds 42. What is left is to say so.';
const QUESTION = 'Let a sub-agent write 42 into answer.txt, then check it.';

const call = (name: string, input: object) =>
  `<tool_call>${JSON.stringify({ name, arguments: input })}</tool_call>`;

/** What a model that knows its job would reply; the whole dialogue is in the prompt. */
function replyTo(prompt: string): string {
  const dialogue = prompt.slice(prompt.indexOf('<|im_start|>user'));
  const last = dialogue.slice(dialogue.lastIndexOf('<|im_start|>user'));
  const results = dialogue.split('<|im_start|>tool\n').length - 1;
  if (prompt.includes('Generate a title for this conversation')) return 'A number in a file';
  if (/summar/i.test(last)) return SUMMARY;
  if (dialogue.includes(SUMMARY)) return 'answer.txt holds 42.';
  if (dialogue.startsWith(`<|im_start|>user\n${JOB}`)) {
    return results === 0
      ? call('bash', { command: 'echo 42 > answer.txt', description: 'Writes' })
      : 'Written.';
  }
  if (results === 0)
    return call('task', { description: 'Write a file', prompt: JOB, subagent_type: 'general' });
  const look = { command: 'cat answer.txt; seq 1 7000', description: 'Shows it, and much more' };
  return results === 1 ? `Let me look.${call('bash', look)}` : 'It holds 42.';
}

/** A way to the endpoint on which one connection breaks. */
async function openFaultyWay() {
  let [target, requests] = ['', 0];
  const server = createServer((incoming, outgoing) => {
    const isCut = ++requests === CUT;
    const { method, headers, url = '' } = incoming;
    const onward = send(`${new URL(target).origin}${url}`, { method: method!, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      if (!isCut) return void answer.pipe(outgoing);
      answer.once('data', (part) => {
        outgoing.write(part, () => {
          onward.destroy();
          outgoing.destroy();
        });
      });
    });
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    to: (url: string) => {
      target = url;
      return `http://127.0.0.1:${port}${new URL(url).pathname}`;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Its context is small, so that the list of numbers outgrows it. */
const CONFIG = {
  provider: {
    rollcall: {
      npm: '@ai-sdk/openai-compatible',
      options: { baseURL: '{env:OPENAI_BASE_URL}', apiKey: '{env:OPENAI_API_KEY}' },
      models: { policy: { tool_call: true, limit: { context: 40_000, output: 4_000 } } },
    },
  },
  small_model: 'rollcall/policy',
  permission: 'allow',
  autoupdate: false,
  share: 'disabled',
};

export async function proveCodingAgent(setup: {
  readonly program: string;
  readonly folder: string;
  readonly seconds: number;
}): Promise<{ readonly aims: readonly Aim[]; readonly figures: object }> {
  const { tokenizer, format } = byteModel();
  const engine = scriptedEngine({
    tokenizer,
    contextTokens: 1_000_000,
    tokenMs: 1,
    reply: ({ text }) => replyTo(text),
  });
  const work = join(setup.folder, 'work');
  await mkdir(work, { recursive: true });
  const way = await openFaultyWay();
  const codingAgent = processAgent({
    command: [setup.program, 'run', '--model', 'rollcall/policy', QUESTION],
    cwd: work,
    env: ({ endpoint }) => ({
      OPENAI_BASE_URL: way.to(endpoint.openai),
      HOME: setup.folder,
      XDG_CONFIG_HOME: undefined,
      XDG_DATA_HOME: undefined,
      XDG_CACHE_HOME: undefined,
      OPENCODE_CONFIG_CONTENT: JSON.stringify(CONFIG),
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    }),
  });
  try {
    const [group] = await rollout({
      tasks: [{ index: 0, task: {} }],
      attempts: 1,
      step: 1,
      agent: codingAgent,
      server: engine,
      format,
      rewards: [],
      seed: 1,
      limits: { turns: 50, tokensPerTrajectory: 1_000_000, secondsPerTrajectory: setup.seconds },
      failures: { tolerateShare: 1 },
    });
    const { trajectory } = group!.attempts[0]!;
    const written = await readFile(join(work, 'answer.txt'), 'utf8').catch(() => 'nothing');
    return judge(trajectory, { written, engine, decode: (ids) => tokenizer.decode(ids) });
  } finally {
    way.close();
  }
}

function judge(
  { end, turns, segments, extra, endpoint }: Trajectory,
  given: {
    readonly written: string;
    readonly engine: ReturnType<typeof scriptedEngine>;
    readonly decode: (ids: Int32Array) => string;
  },
) {
  const { requests, replies } = given.engine;
  const isAsLogged = turns.map(({ segment, start, end: stop }, turn) => {
    const { ids } = segments[segment]!;
    const [prompt, reply] = [requests[turn]!.prompt, replies[turn]!.ids];
    return (
      isEqual(ids.subarray(0, start), prompt) &&
      isEqual(ids.subarray(start, stop), reply.subarray(0, stop - start))
    );
  });
  const sum = (column: 'sampled' | 'trained') =>
    segments.reduce((total, segment) => total + segment[column].reduce((a, b) => a + b, 0), 0);
  const abandoned = turns.filter(({ untrained }) => untrained === 'abandoned');
  const lost = abandoned.reduce((total, turn) => total + turn.end - turn.start, 0);
  const firstUser = segments.map(({ ids }) => {
    const text = given.decode(ids);
    return text.slice(text.indexOf('<|im_start|>user') + 17);
  });
  const ofJob = firstUser.filter((text) => text.startsWith(JOB)).length;
  const summaries = segments.filter((_, at) => firstUser[at]!.includes(SUMMARY)).length;
  const output = extra['process'] as {
    readonly code: number;
    readonly seconds: number;
    readonly stderr: string;
  };
  const share = sum('trained') / sum('sampled');
  return {
    aims: [
      holds(
        'opencode: it ends by itself, with its work done',
        end.kind === 'completed' && given.written === '42\n',
        {
          end,
          written: given.written,
        },
      ),
      holds(
        "opencode: every prompt and every sampled token is the engine's own",
        isAsLogged.length === replies.length && isAsLogged.every(Boolean),
        `${isAsLogged.filter(Boolean).length} of ${replies.length} replies`,
      ),
      atLeast('opencode: segments of its sub-agent (asked, and asked again)', ofJob, 2),
      atLeast('opencode: segments around its summary', summaries, 2),
      holds(
        'opencode: the reply that nobody received, and nothing else, is not trained',
        abandoned.length === 1 && sum('sampled') - sum('trained') === lost,
        { abandoned: abandoned.length, tokens: lost },
      ),
    ],
    figures: {
      requests: endpoint?.requests,
      replies: turns.length,
      segments: segments.map(({ ids, sampled }) => [ids.length, sampled.reduce((a, b) => a + b, 0)]),
      sampled: sum('sampled'),
      trained: sum('trained'),
      shareTrained: Math.round(1000 * share) / 1000,
      ignoredFields: endpoint?.ignoredFields,
      seconds: Math.round(output.seconds),
    },
  };
}

const isEqual = (one: Int32Array, other: Int32Array) =>
  one.length === other.length && one.every((id, at) => id === other[at]);
