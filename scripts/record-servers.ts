/**
 * Records what a real server answers: `node --import ./bin/register.js scripts/record-servers.ts --engine vllm --url
 * http://127.0.0.1:18100 --model DIR --weights DIR [--adapter DIR] --flags '…' --out test/data/servers/vllm-0.32.0.json`.
 * `--avoid scored,wrong-id` leaves out steps that end this build of the server. Folders are written as MODEL, WEIGHTS and ADAPTER. test/recorded-servers.test.ts replays the file.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { loadModelFiles } from '../src/chat/model-files.ts';
import { SglangServer } from '../src/inference/sglang.ts';
import { VllmServer } from '../src/inference/vllm.ts';
import { type Pair, type Recording, startRecorder } from '../test/servers/recorder.ts';
import { playScenario } from '../test/servers/scenario.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: {
    engine: text,
    url: text,
    model: text,
    weights: text,
    adapter: text,
    flags: text,
    out: text,
    avoid: text,
  },
});
const { engine, url, model, weights, adapter, flags = '', avoid = '', out } = values;
if ((engine !== 'vllm' && engine !== 'sglang') || !url || !model || !weights || !out) {
  throw new Error('give --engine vllm or sglang, --url, --model, --weights and --out');
}
const { tokenizer } = await loadModelFiles(model);
const recorder = await startRecorder(url);
const server =
  engine === 'vllm' ? new VllmServer({ url: recorder.url }) : new SglangServer({ url: recorder.url });
const outcomes = await playScenario(
  server,
  {
    prompt: tokenizer.encode('Anna has 3 apples and buys 4 more. How many does she have now?'),
    weights,
    adapter,
    avoid: avoid.split(','),
  },
  recorder.begin,
);
const { release = 'unknown' } = await server.info();
recorder.begin('close');
await server.close();
await recorder.close();
for (const [step, outcome] of outcomes) console.log(step, JSON.stringify(outcome).slice(0, 300));

const FLAGS_READ = [
  'version',
  'context_length',
  'max_req_input_len',
  'enable_lora',
  'enable_memory_saver',
  'enable_deterministic_inference',
  'incremental_streaming_output',
];

/** Metrics and the 600 settings that SGLang tells are cut to what is read. */
function trimmed(pair: Pair): Pair {
  const { call, answer } = pair;
  if (typeof answer === 'string' && call.endsWith('/metrics')) {
    const read = /^vllm:(num_requests|kv_cache_usage|prefix_cache|num_preemptions|cache_config_info)/;
    const lines = answer.split('\n').filter((line) => read.test(line));
    return { ...pair, answer: lines.join('\n') };
  }
  if (!call.endsWith('/server_info')) return pair;
  const all = answer as Readonly<Record<string, unknown>>;
  return { ...pair, answer: Object.fromEntries(FLAGS_READ.map((name) => [name, all[name] ?? null])) };
}

/** A change in a new version of the server is then a diff of few lines. */
function pairPerLine({ pairs, ...head }: Recording): string {
  const lines = pairs.map((pair) => JSON.stringify(pair)).join(',\n');
  return `${JSON.stringify(head).slice(0, -1)},"pairs":[\n${lines}\n]}`;
}

const recording: Recording = { engine, release, flags, pairs: recorder.pairs.map(trimmed) };
const folders = [
  [weights, 'WEIGHTS'],
  [adapter, 'ADAPTER'],
  [model, 'MODEL'],
] as const;
const written = folders.reduce(
  (all, [folder, name]) => (folder ? all.replaceAll(folder, name) : all),
  pairPerLine(recording),
);
await writeFile(out, `${written}\n`);
console.log(`${recording.pairs.length} pairs, ${written.length} bytes, ${out}`);
