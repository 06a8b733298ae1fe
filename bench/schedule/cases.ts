/**
 * The cases of `bench schedule`, written down before its first run and not changed to reach a figure. Where a number
 * is published its source stands beside it; `assumed` is our own choice, and the bench prints what ±50 % of it does.
 *
 * Times of steps follow from data sheets: weights and K/V are read from memory once a step, arithmetic runs at half of
 * its peak (assumed), and a step has 3 ms that no model size explains: Qwen3-30B-A3B on one H200 was measured at
 * 4.62 ms a token with one request (cloudrift-ai/emmy pull request 822), of which 3.3 G active parameters × 2 bytes ÷
 * 4.8 TB/s = 1.4 ms are weights.
 */
import type { SimulatedHardware, SimulatedShape } from 'rollcall/testing';

export interface ScheduleCase {
  readonly name: string;
  readonly what: string;
  readonly servers: number;
  readonly hardware: SimulatedHardware;
  readonly shape: SimulatedShape;
  readonly tasks: number;
  readonly attempts: number;
  /** Tools that run at once. */
  readonly toolWorkers: number;
}

/** Share of the bf16 peak that is reached; assumed. */
const ARITHMETIC_SHARE = 0.5;
const STEP_OVERHEAD_MS = 3;
const BYTES = 2;

interface Model {
  /** Parameters read in a step with many requests, and those used for one token. */
  readonly parametersRead: number;
  readonly parametersUsed: number;
  readonly kvBytesPerToken: number;
  readonly weightBytes: number;
}

interface Accelerator {
  readonly bytesPerSecond: number;
  readonly flops: number;
  readonly memoryBytes: number;
}

/** Data sheets of NVIDIA's H100 SXM and H20: memory bandwidth, dense bf16, memory. */
const H100: Accelerator = { bytesPerSecond: 3.35e12, flops: 989e12, memoryBytes: 80e9 };
const H20: Accelerator = { bytesPerSecond: 4e12, flops: 148e12, memoryBytes: 96e9 };

/** From config.json: 28 layers × 2 × 2 K/V heads × 128 × 2 bytes. */
const QWEN_1_5B: Model = {
  parametersRead: 1.54e9,
  parametersUsed: 1.54e9,
  kvBytesPerToken: 28 * 2 * 2 * 128 * BYTES,
  weightBytes: 1.54e9 * BYTES,
};

/** 28 layers, 4 K/V heads. */
const QWEN_7B: Model = {
  parametersRead: 7.6e9,
  parametersUsed: 7.6e9,
  kvBytesPerToken: 28 * 2 * 4 * 128 * BYTES,
  weightBytes: 7.6e9 * BYTES,
};

/** Qwen3-Coder-30B-A3B: 48 layers, 4 K/V heads; with tens of requests nearly all of its 128 experts are read. */
const QWEN_30B_A3B: Model = {
  parametersRead: 29e9,
  parametersUsed: 3.3e9,
  kvBytesPerToken: 48 * 2 * 4 * 128 * BYTES,
  weightBytes: 30.5e9 * BYTES,
};

function hardwareOf(
  model: Model,
  accelerator: Accelerator,
  { memoryShare, maxBatch }: { readonly memoryShare: number; readonly maxBatch: number },
): SimulatedHardware {
  const tokenMs = (1000 * 2 * model.parametersUsed) / (ARITHMETIC_SHARE * accelerator.flops);
  return {
    stepMs: STEP_OVERHEAD_MS + (1000 * BYTES * model.parametersRead) / accelerator.bytesPerSecond,
    sequenceMs: tokenMs,
    contextMs: (1000 * model.kvBytesPerToken) / accelerator.bytesPerSecond,
    prefillMs: tokenMs,
    maxBatch,
    chunkTokens: 8192, // vLLM's default of max_num_batched_tokens for servers
    kvTokens: Math.floor((memoryShare * accelerator.memoryBytes - model.weightBytes) / model.kvBytesPerToken),
    prefixCache: true,
    updateMs: 0,
  };
}

/** Median 200 ms, 99th percentile 3 s: podflare.ai, “AI agent p99 latency matters more than p50” (sandboxed code). */
const SANDBOX_MS = { median: 200, sigma: Math.log(3000 / 200) / 2.326 };

/** “median ≈ 500, p99 ≈ 5000” of a reasoning run (jiahuanglin.xyz, RL lessons, 22b): sigma = ln 10 / 2.326. */
const LENGTH_SIGMA = Math.log(10) / 2.326;

/**
 * verl-tool's comparison (assets/docs/asyncRL.md): math with a Python tool, 2048 trajectories, Qwen2.5-Math-1.5B on four
 * H100; its script (examples/train/math_tir/train_1.5b_grpo.sh) has 128 tasks × 16, prompts to 1024, replies to 2048 a
 * turn, results to 512, 3072 of both in all, 512 sequences a server, memory share 0.8, 256 tool workers. It measured
 * 194 s by batch, 94 s by trajectory. Medians of lengths are assumed. (The limit of 3072 was forgotten here until the
 * first trial runs; `turns3Unlimited` is the case as it was written down first.)
 */
const TURNS_3: ScheduleCase = {
  name: 'turns3',
  what: '3 turns, 2048 trajectories, 1.5B on 4 × H100',
  servers: 4,
  hardware: hardwareOf(QWEN_1_5B, H100, { memoryShare: 0.8, maxBatch: 512 }),
  shape: {
    promptTokens: { median: 150, sigma: 0.4, most: 1024 },
    turns: 3,
    replyTokens: { median: 300, sigma: LENGTH_SIGMA, most: 2048 },
    toolMs: SANDBOX_MS,
    resultTokens: { median: 60, sigma: 1, most: 512 },
    tokensPerTrajectory: 3072,
    sharedByTask: 0.3,
  },
  tasks: 128,
  attempts: 16,
  toolWorkers: 256,
};

/**
 * “5 turns with tools”, without a published setting: as above with tools that reach out (search,
 * APIs), assumed ten times as slow as a sandbox, and as many at once as there are trajectories.
 */
const TURNS_5_TOOLS: ScheduleCase = {
  ...withoutLimit(TURNS_3),
  name: 'turns5tools',
  what: '5 turns with slow tools, 2048 trajectories, 1.5B on 4 × H100',
  shape: {
    ...withoutLimit(TURNS_3).shape,
    turns: 5,
    toolMs: { median: 10 * SANDBOX_MS.median, sigma: SANDBOX_MS.sigma, most: 60_000 },
    resultTokens: { median: 200, sigma: 1, most: 512 },
  },
  toolWorkers: 2048,
};

/**
 * More agents than the K/V memory holds: verl-recipe's comparison of ThunderAgent with a least-busy balancer
 * (Qwen3-Coder-30B-A3B on eight H20, one server each; even at 256 agents, 1.94× at 384, 2.40× at 512). Observations are
 * 84 % of the tokens of a turn of SWE-agent (arXiv 2508.21433). Turns, lengths and tool times are assumed.
 */
const PROGRAMS: ScheduleCase = {
  name: 'programs',
  what: '512 coding agents of about 20 turns, 30B-A3B on 8 × H20',
  servers: 8,
  hardware: hardwareOf(QWEN_30B_A3B, H20, { memoryShare: 0.85, maxBatch: 256 }),
  shape: {
    promptTokens: { median: 2000, sigma: 0.3, most: 8000 },
    turns: { median: 20, sigma: 0.5, most: 60 },
    replyTokens: { median: 100, sigma: LENGTH_SIGMA, most: 2048 },
    toolMs: { median: 1000, sigma: SANDBOX_MS.sigma, most: 120_000 },
    resultTokens: { median: 500, sigma: 1, most: 8000 },
    sharedByTask: 0.3,
  },
  tasks: 64,
  attempts: 8,
  toolWorkers: 512,
};

/**
 * verl's ReTool run (docs/advance/fully_async.md): 7B, up to 16 turns, 32 H20, tensor parallel 4, replies to 16384 in
 * all: 375 s a step where all GPUs do both in turn (228 s of it generation), 221 s where half generate and half train.
 * Here 8 groups of four GPUs; 64 tasks × 16 attempts, an eighth of the published batch on as many servers, assumed to
 * keep the simulation short. Tensor parallelism is taken as four times the bandwidth and arithmetic.
 */
const MODES: ScheduleCase = {
  name: 'modes',
  what: 'every mode over 8 steps, 7B with a code tool on 8 × 4 H20',
  servers: 8,
  hardware: hardwareOf(
    QWEN_7B,
    { bytesPerSecond: 4 * H20.bytesPerSecond, flops: 4 * H20.flops, memoryBytes: 4 * H20.memoryBytes },
    { memoryShare: 0.5, maxBatch: 256 },
  ),
  shape: {
    promptTokens: { median: 300, sigma: 0.4, most: 2048 },
    turns: { median: 5, sigma: 0.5, most: 16 },
    replyTokens: { median: 400, sigma: LENGTH_SIGMA, most: 4096 },
    toolMs: SANDBOX_MS,
    resultTokens: { median: 100, sigma: 1, most: 1024 },
    tokensPerTrajectory: 16_384,
    sharedByTask: 0.3,
  },
  tasks: 64,
  attempts: 16,
  toolWorkers: 1024,
};

/** The trainer's time, where all GPUs train: (375 − 228) / 228 of the synchronous generation of the same batch. */
export const TRAINING_SHARE = (375.47 - 228) / 228;

/** How much longer training takes on half of the GPUs: assumed twice, and the most that the published step allows. */
export const TRAINING_ON_HALF = { assumed: 2, published: 221.36 / (375.47 - 228) } as const;

/** One server with its share of the work: what it sees is the same, but no trajectory can move. */
export const oneServerOf = (one: ScheduleCase): ScheduleCase => ({
  ...one,
  servers: 1,
  tasks: Math.ceil(one.tasks / one.servers),
  toolWorkers: Math.ceil(one.toolWorkers / one.servers),
});

function withoutLimit(one: ScheduleCase): ScheduleCase {
  const { tokensPerTrajectory: _, ...shape } = one.shape;
  return { ...one, shape };
}

export const CASES = {
  turns3: TURNS_3,
  turns3Unlimited: { ...withoutLimit(TURNS_3), name: 'turns3Unlimited' },
  turns5tools: TURNS_5_TOOLS,
  programs: PROGRAMS,
  modes: MODES,
} as const;

/** The parameters that the bench moves by half, and how. */
export const SENSITIVITY: Readonly<Record<string, (one: ScheduleCase, by: number) => ScheduleCase>> = {
  stepMs: (one, by) => withHardware(one, { stepMs: one.hardware.stepMs * by }),
  sequenceMs: (one, by) => withHardware(one, { sequenceMs: one.hardware.sequenceMs * by }),
  contextMs: (one, by) => withHardware(one, { contextMs: one.hardware.contextMs * by }),
  prefillMs: (one, by) => withHardware(one, { prefillMs: one.hardware.prefillMs * by }),
  kvTokens: (one, by) => withHardware(one, { kvTokens: Math.round(one.hardware.kvTokens * by) }),
  replyMedian: (one, by) => withShape(one, { replyTokens: scaled(one.shape.replyTokens, by, 1) }),
  replySigma: (one, by) => withShape(one, { replyTokens: scaled(one.shape.replyTokens, 1, by) }),
  toolMedian: (one, by) => withShape(one, { toolMs: scaled(one.shape.toolMs, by, 1) }),
  toolSigma: (one, by) => withShape(one, { toolMs: scaled(one.shape.toolMs, 1, by) }),
  resultMedian: (one, by) => withShape(one, { resultTokens: scaled(one.shape.resultTokens, by, 1) }),
  sharedByTask: (one, by) => withShape(one, { sharedByTask: one.shape.sharedByTask * by }),
};

const withHardware = (one: ScheduleCase, hardware: Partial<SimulatedHardware>): ScheduleCase => ({
  ...one,
  hardware: { ...one.hardware, ...hardware },
});

const withShape = (one: ScheduleCase, shape: Partial<SimulatedShape>): ScheduleCase => ({
  ...one,
  shape: { ...one.shape, ...shape },
});

const scaled = <D extends { readonly median: number; readonly sigma: number }>(
  distribution: D,
  median: number,
  sigma: number,
): D => ({
  ...distribution,
  median: distribution.median * median,
  sigma: distribution.sigma * sigma,
});
