/**
 * The computed tables of docs/scale.md: `npm run docs:scale` writes them. Every input stands here with its source, so that no figure
 * of the page can outlive what it was computed from.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

export const SCALE_PAGE = 'docs/scale.md';

interface Model {
  readonly name: string;
  readonly parameters: number;
  /** GPUs of one server: weights in bf16 and K/V memory on cards of 80 GB; assumed. */
  readonly gpusPerServer: number;
  /** Parameters of an adapter of rank 32 on all layers: 32 · (inputs + outputs) of q, k, v, o, gate, up and down. */
  readonly adapter: number;
}

/** Qwen2.5's shapes, 70B is Llama 3's: layers, hidden, feed-forward, and outputs of k and v (config.json of each). */
const adapterOf = (layers: number, hidden: number, forward: number, keyValue: number) =>
  32 * layers * (2 * (hidden + hidden) + 2 * (hidden + keyValue) + 3 * (hidden + forward));
export const MODELS: readonly Model[] = [
  { name: '7B', parameters: 7.6e9, gpusPerServer: 1, adapter: adapterOf(28, 3584, 18_944, 512) },
  { name: '14B', parameters: 14.8e9, gpusPerServer: 2, adapter: adapterOf(48, 5120, 13_824, 1024) },
  { name: '32B', parameters: 32.8e9, gpusPerServer: 4, adapter: adapterOf(64, 5120, 27_648, 1024) },
  { name: '70B', parameters: 70.6e9, gpusPerServer: 8, adapter: adapterOf(80, 8192, 28_672, 1024) },
];

const BYTES = 2; // bf16
/** Bytes a second. One port of 400 Gb/s; what a shared file system gives all readers together is assumed. */
const PORT = 50e9;
const FILES = 20e9;

/** Seconds until all servers have a version, by how it travels. Loading on the server is not counted. */
export function syncSeconds({ parameters, adapter }: Model, servers: number) {
  const bytes = BYTES * parameters;
  return {
    /** Written once and read by every server. */
    files: bytes / FILES + (servers * bytes) / FILES,
    /** Copied from the trainer's node to each server (no shared disk): its port carries all. */
    copied: (servers * bytes) / PORT,
    /** One process group of rank 0 and all servers (`pushBy: group`, `sglang`): every port carries the weights once. */
    group: bytes / PORT,
    /** Only the low-rank matrices, by files. */
    adapter: (BYTES * adapter * (servers + 1)) / FILES,
  };
}

const SIZES = [8, 32, 128, 512];

function weightsTable(): string {
  const head = [
    '| model | GPUs | servers | by files | copied from one node | process group | adapter, rank 32 |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: |',
  ];
  const rows = MODELS.flatMap((model) =>
    SIZES.flatMap((gpus) => {
      const servers = Math.floor(gpus / 2 / model.gpusPerServer);
      if (servers === 0) return [];
      const { files, copied, group, adapter } = syncSeconds(model, servers);
      const cells = [files, copied, group, adapter].map(seconds);
      return [`| ${[model.name, gpus, servers, ...cells].join(' | ')} |`];
    }),
  );
  return [...head, ...rows].join('\n');
}

/**
 * Llama 3's pre-training (arXiv 2407.21783, section 3.3.4): 419 unexpected interruptions in 54 days on 16,384 H100.
 */
const GPU_HOURS_PER_FAILURE = (54 * 24 * 16_384) / 419;

/** Minutes; the first two are assumed, checkpoints are those of the default `checkpoints.every` 10 at steps of 3 minutes. */
const SERVER_START = 3;
const TRAINER_START = 5;
const STEP = 3;
const STEPS_PER_CHECKPOINT = 10;

function failuresTable(): string {
  const head = [
    '| GPUs | hours between failures | a server dies: share of the GPU time lost | a trainer rank dies: the same |',
    '| ---: | ---: | ---: | ---: |',
  ];
  const rows = SIZES.map((gpus) => {
    const hours = GPU_HOURS_PER_FAILURE / gpus;
    const perHour = 1 / hours / 2; // half of the GPUs sample, half train
    // One node of eight starts again; the others go on.
    const server = (perHour * SERVER_START * Math.min(1, 8 / gpus)) / 60;
    // Everybody waits for the trainer, which repeats half of the steps since its checkpoint.
    const trainer = (perHour * (TRAINER_START + (STEP * STEPS_PER_CHECKPOINT) / 2)) / 60;
    return `| ${[gpus, hours < 100 ? hours.toFixed(0) : Math.round(hours).toLocaleString('en'), percent(server), percent(trainer)].join(' | ')} |`;
  });
  return [...head, ...rows].join('\n');
}

const seconds = (value: number) =>
  value < 10
    ? `${value.toPrecision(2)} s`
    : value < 120
      ? `${value.toFixed(0)} s`
      : `${(value / 60).toFixed(0)} min`;
const percent = (share: number) => `${(100 * share).toPrecision(2)} %`;

const TABLES: Readonly<Record<string, () => string>> = { weights: weightsTable, failures: failuresTable };

/** The page with its tables as they are computed now. */
export function withTables(page: string): string {
  return Object.entries(TABLES).reduce((text, [name, table]) => {
    const block = new RegExp(`(<!-- computed: ${name} -->\\n)[\\s\\S]*?(<!-- /computed -->)`);
    if (!block.test(text)) throw new Error(`${SCALE_PAGE} has no place for the table ${name}`);
    return text.replace(block, (_, before: string, after: string) => `${before}${table()}\n${after}`);
  }, page);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  writeFileSync(SCALE_PAGE, withTables(readFileSync(SCALE_PAGE, 'utf8')));
