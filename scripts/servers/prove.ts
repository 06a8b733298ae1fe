/** The proof of a real server, which `npm run prove vllm` and `npm run prove sglang` share. */
import { execFile } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { trainOptions } from '../../examples/quickstart/train-options.ts';
import { loadModelFiles } from '../../src/chat/model-files.ts';
import { embedded } from '../../src/engine/embedded.ts';
import { ConfigError } from '../../src/errors.ts';
import { engineNamed } from '../../src/inference/engines.ts';
import { portOwner } from '../../src/inference/port.ts';
import {
  asynchronous,
  type Mode,
  oneStepOff,
  overSample,
  partial,
  tailRounds,
} from '../../src/modes/mode.ts';
import { servers } from '../../src/options/servers.ts';
import type { TrainOptions } from '../../src/options.ts';
import { train } from '../../src/train.ts';
import type { ContractCase } from '../../testing/contract.ts';
import { inferenceServerContract } from '../../testing/inference-server-contract.ts';
import { readFlags } from '../flags.ts';
import { warmStart } from '../short-run.ts';
import { type Aim, atMost, conclude, concludeFailed, holds } from '../verdict.ts';
import { adapterCases, servingCases } from './cases.ts';
import { killRun } from './kills.ts';
import { type SmallModels, smallModels } from './models.ts';
import { install, type RealServer } from './real-server.ts';
import { freePort, realCommands, START_SECONDS, startReal } from './start.ts';

/** In this order. */
const PARTS = ['serving', 'adapters', 'tiedHead', 'launchedRun', 'kills'] as const;

const execute = promisify(execFile);
const say = (line: string) => console.error(`${new Date().toISOString().slice(11, 19)}  ${line}`);

export async function proveServer(real: RealServer): Promise<void> {
  const options = proofOptions();
  const late = () => {
    concludeFailed(`not done in ${options.minutes} minutes`);
    process.exit(1); // servers end with this process
  };
  setTimeout(late, options.minutes * 60_000).unref();
  await install(real, say);
  await mkdir(options.runs, { recursive: true });
  const warm = await warmStart(options.runs, { seed: 1, variant: 'short' });
  const models = smallModels(warm, resolve(options.runs, 'models'));
  const proof = new Proof(real, models, options);
  for (const part of PARTS) if (options.parts.includes(part)) await proof[part]();
  for (const [what, why] of Object.entries(real.cannot)) say(`this build cannot do: ${what} (${why})`);
  conclude(proof.aims, { ...proof.figures, cannot: real.cannot });
}

type ProofOptions = ReturnType<typeof proofOptions>;

function proofOptions() {
  const flags = readFlags(
    { runs: 'runs/prove-servers', parts: PARTS.join(','), steps: '6', kills: '20', minutes: '90' },
    { steps: '3', kills: '2', minutes: '25' },
  );
  const parts = flags.parts.split(',');
  const unknown = parts.find((part) => !PARTS.some((one) => one === part));
  if (unknown !== undefined)
    throw new ConfigError(`--parts has ${JSON.stringify(unknown)}; known are ${PARTS.join(', ')}`);
  return {
    runs: flags.runs,
    parts,
    /** Steps of the training that is compared with the embedded engine's. */
    steps: Number(flags.steps),
    /** SIGKILLs of a run with a server. */
    kills: Number(flags.kills),
    /** The whole proof's time limit. */
    minutes: Number(flags.minutes),
  };
}

class Proof {
  readonly aims: Aim[] = [];
  readonly figures: Record<string, unknown> = {};
  readonly #real: RealServer;
  readonly #models: SmallModels;
  readonly #options: ProofOptions;
  readonly #directory: string;

  constructor(real: RealServer, models: SmallModels, options: ProofOptions) {
    this.#real = real;
    this.#models = models;
    this.#options = options;
    this.#directory = join(options.runs, real.engine);
  }

  /** The contract, what it does not cover, and every rollout mode, on one server. */
  async serving(): Promise<void> {
    const began = performance.now();
    const server = await this.#start(this.#models.untied);
    const { url } = server;
    this.figures['startSeconds'] = Math.round((performance.now() - began) / 1000);
    try {
      const { tokenizer } = await loadModelFiles(this.#models.untied);
      const prompt = tokenizer.encode('Anna has 3 apples and buys 4 more. How many does she have now?');
      const open = async () => this.#engine.connect({ url });
      const update = (version: number) => ({ kind: 'disk', version, path: this.#models.untied }) as const;
      const contract = await inferenceServerContract(open, { prompt: [...prompt], update });
      const decode = (ids: Int32Array) => tokenizer.decode(ids);
      const own = servingCases(open, { prompt, models: this.#models, real: this.#real, decode });
      await this.#run([...contract, ...own]);
      await this.#benchServers(url);
      await this.#modes(url);
    } finally {
      await server.stop();
    }
  }

  async adapters(): Promise<void> {
    const server = await this.#start(this.#models.untied, { loraRank: 8 });
    const { url } = server;
    try {
      const { tokenizer } = await loadModelFiles(this.#models.untied);
      const prompt = tokenizer.encode('Anna has 3 apples.');
      const open = async () => this.#engine.connect({ url });
      const decode = (ids: Int32Array) => tokenizer.decode(ids);
      await this.#run(adapterCases(open, { prompt, models: this.#models, real: this.#real, decode }));
      if (!this.#real.dies.ofScoringWithLora) {
        const log: string[] = [];
        const lora = { rank: 8, alpha: 16 };
        const curve = await this.#train('adapter', 2, {
          servers: servers({
            urls: [url],
            engine: this.#real.engine,
            send: 'adapter',
            log: (line) => log.push(line),
          }),
          trainer: embedded({ threads: 1, lora }).trainer,
        });
        this.aims.push(holds('adapters are trained and attested, none failed', curve.failed === 0, log));
      }
    } finally {
      await server.stop();
    }
  }

  /** vLLM on the CPU keeps a copy of a tied output layer: attestation must find it. */
  async tiedHead(): Promise<void> {
    if (!this.#real.keepsTiedHead) return;
    const server = await this.#start(this.#models.tied);
    const { url } = server;
    try {
      const given = { servers: servers({ urls: [url], engine: this.#real.engine, log: () => {} }) };
      const stopped = await this.#train('tied', 3, given, this.#models.tied).then(
        () => 'the run went to its end',
        (error: Error) => error.message,
      );
      const isFound = /took only part of the weights.*lm_head/s.test(stopped);
      this.aims.push(
        holds('a tied head that stays behind is found and named', isFound, stopped.slice(0, 400)),
      );
    } finally {
      await server.stop();
    }
  }

  /** A run that starts its own server, which is killed in a step, against the embedded engine from the same weights. */
  async launchedRun(): Promise<void> {
    const { steps } = this.#options;
    const portStart = await freePort();
    const log: string[] = [];
    let hasKilled = false;
    const killServer = async () => {
      hasKilled = true;
      const pid = /process (\d+)/.exec((await portOwner(portStart)) ?? '')?.[1];
      if (pid !== undefined) process.kill(Number(pid), 'SIGKILL');
    };
    const launched = await this.#train('launched', steps, {
      servers: servers({
        engine: this.#real.engine,
        launch: { ...this.#real.launch, program: this.#real.program, portStart },
        startSeconds: START_SECONDS,
        log: (line) => {
          log.push(line);
          say(line);
        },
      }),
      onProgress: ({ step, phase, done }) => {
        if (step === 2 && phase === 'rollout' && done >= 4 && !hasKilled) void killServer();
      },
    });
    const own = await this.#train('embedded', steps, {});
    const [mean, ownMean] = [meanOf(launched.rewards), meanOf(own.rewards)];
    const error = Math.sqrt((ownMean * (1 - ownMean) * 2) / own.rewards.length);
    this.figures['rewards'] = { launched: launched.perStep, embedded: own.perStep };
    this.figures['gaps'] = launched.gaps;
    this.aims.push(
      holds(
        'the server was killed in step 2, and was started again',
        log.some((line) => line.includes('started again')),
        log,
      ),
      atMost('attempts that failed or have no reward', launched.failed, 0),
      atMost('attempts scored 0 that neither completed nor reached a limit', launched.cutAndScored, 0),
      holds('no attempt is missing', launched.rewards.length === own.rewards.length, launched.rewards.length),
      atMost('difference of mean rewards in standard errors', Math.abs(mean - ownMean) / error, 3),
      atMost('largest difference of probabilities, sampled and trained', Math.max(...launched.gaps), 1e-3),
    );
  }

  async kills(): Promise<void> {
    const found = [];
    for (let kill = 0; kill < this.#options.kills; kill++) {
      const [command] = await realCommands(this.#real, this.#models.untied);
      // Every fourth once it is ready; the others at different moments of the start.
      const afterMs = kill % 4 === 0 ? undefined : 1000 * (kill + 1);
      const one = await killRun(command!, join(this.#directory, 'kills'), afterMs);
      say(`killed while ${one.when}: ${one.processes} processes gone in ${one.seconds.toFixed(1)} s`);
      found.push(one);
    }
    this.figures['kills'] = found.map(({ when, processes, seconds }) => [
      when,
      processes,
      Number(seconds.toFixed(2)),
    ]);
    this.aims.push(
      atMost(
        'seconds until processes and port of a killed run are gone',
        Math.max(...found.map(({ seconds }) => seconds)),
        10,
      ),
    );
  }

  /** `rollcall bench servers` sends only ids that the model has, and warns of nothing. */
  async #benchServers(url: string): Promise<void> {
    const sizes = '--trajectories 32 --concurrency 16 --prompt-tokens 64 --reply-tokens 16 --result-tokens 8';
    const words =
      `bench servers --url ${url} --engine ${this.#real.engine} --turns 1,3 ${sizes} --json`.split(' ');
    const { stdout, stderr } = await execute(process.execPath, ['bin/rollcall.js', ...words]);
    const measured = stdout
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text) as { failed: number; turnP99Seconds: number; cached?: number });
    const isWhole = measured.every(({ failed, turnP99Seconds }) => failed === 0 && turnP99Seconds > 0);
    say(stdout.trim());
    this.aims.push(
      holds(
        'bench servers: two measurements, none failed, nothing on standard error',
        measured.length === 2 && isWhole && stderr === '',
        stderr === '' ? measured : stderr.slice(0, 400),
      ),
      holds(
        'it says how much of a prompt was cached',
        measured.every(({ cached }) => cached !== undefined),
      ),
    );
  }

  async #modes(url: string): Promise<void> {
    const modes: Record<string, Mode> = {
      'one step off': oneStepOff(),
      asynchronous: asynchronous({ staleness: 1 }),
      partial: partial({ extraTasks: 2 }),
      'over-sample': overSample({ tasks: 2 }),
      'tail rounds': tailRounds({ extraTasks: 2 }),
    };
    for (const [name, mode] of Object.entries(modes)) {
      const given = { servers: servers({ urls: [url], engine: this.#real.engine, log: say }), mode };
      const { failed, perStep } = await this.#train(name.replaceAll(' ', '-'), 2, given);
      this.aims.push(
        holds(`mode ${name}: two steps, none failed`, failed === 0 && perStep.length === 2, perStep),
      );
    }
  }

  async #train(
    name: string,
    steps: number,
    given: Partial<TrainOptions>,
    model = this.#models.untied,
  ): Promise<Curve> {
    const runDir = join(this.#directory, name);
    await rm(runDir, { recursive: true, force: true });
    const {
      validation: _,
      evaluation: __,
      ...options
    } = trainOptions({ seed: 1, variant: 'short', steps, model, runDir });
    const { trainer } = embedded({ threads: 1 });
    const sizes = { tasksPerStep: 8, attemptsPerTask: 4, checkpoints: { every: 100 } };
    const curve: Curve = { rewards: [], perStep: [], gaps: [], failed: 0, cutAndScored: 0 };
    for await (const { step, metrics, groups } of train({
      ...options,
      trainer,
      ...sizes,
      ...(given as object),
    })) {
      if (step === 0) continue;
      const attempts = groups.flatMap((group) => group.attempts);
      const rewards = attempts.flatMap(({ reward }) => reward ?? []);
      curve.rewards.push(...rewards);
      curve.perStep.push(Number(meanOf(rewards).toFixed(3)));
      curve.gaps.push(metrics['training/rollout_probs_diff_max'] ?? Number.NaN);
      curve.failed += attempts.filter(
        ({ trajectory, reward }) => trajectory.end.kind === 'failed' || reward === undefined,
      ).length;
      curve.cutAndScored += attempts.filter(
        ({ trajectory: { end }, reward }) =>
          reward === 0 && end.kind !== 'completed' && end.kind !== 'truncated',
      ).length;
      say(
        `${name} ${step}/${steps}: reward ${meanOf(rewards).toFixed(3)}, gap ${curve.gaps.at(-1)!.toExponential(1)}`,
      );
    }
    return curve;
  }

  async #run(cases: readonly ContractCase[]): Promise<void> {
    for (const { name, run } of cases) {
      const failure = await run().then(
        () => undefined,
        (error: Error) => error.message,
      );
      say(failure === undefined ? `kept    ${name}` : `BROKEN  ${name}: ${failure}`);
      this.aims.push(holds(name, failure === undefined, failure ?? true));
    }
  }

  #start(model: string, more: { readonly loraRank?: number } = {}) {
    return startReal(this.#real, model, { ...more, directory: this.#directory, say });
  }

  get #engine() {
    return engineNamed(this.#real.engine, 'engine');
  }
}

interface Curve {
  readonly rewards: number[];
  /** Mean reward of each step. */
  readonly perStep: number[];
  /** Largest difference of probabilities, sampled and trained, of each step. */
  readonly gaps: number[];
  failed: number;
  cutAndScored: number;
}

const meanOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
