/** A run that was launched on a cluster by the command line, as a user does it, and what it leaves behind. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

export interface Launching {
  readonly project: string;
  readonly address: string;
  readonly python: string;
  readonly runDir: string;
  readonly words?: readonly string[];
  onLine(line: string): void;
}

export interface Ended {
  readonly code: number | null;
  readonly lines: readonly string[];
  readonly seconds: number;
}

/** `rollcall launch ray … --attach`, until it ends. */
export function launch({ project, address, python, runDir, words = [], onLine }: Launching): Promise<Ended> {
  const command = ['launch', 'ray', 'run.yaml', '--attach', '--address', address, '--run', runDir];
  return rollcall([...command, '--python', python, '--node', process.execPath, ...words], project, onLine);
}

/** A command of ours in a folder. */
export async function rollcall(
  words: readonly string[],
  folder: string,
  onLine: (line: string) => void = () => {},
): Promise<Ended> {
  const began = performance.now();
  const child = spawn(process.execPath, [resolve('bin/rollcall.js'), ...words], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on('line', (line) => {
      lines.push(line);
      onLine(line);
    });
  }
  const code = await new Promise<number | null>((done) => child.once('close', done));
  return { code, lines, seconds: Math.round((performance.now() - began) / 1000) };
}

export interface Curve {
  readonly rewards: readonly number[];
  readonly gradNorms: readonly number[];
  /** Trajectories of each step. */
  readonly trajectories: readonly number[];
  readonly failed: number;
}

export function curveOf(runDir: string): Curve {
  const file = join(runDir, 'metrics.jsonl');
  const steps = existsSync(file)
    ? readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { step: number; metrics: Record<string, number> })
        .filter(({ step }) => step > 0)
    : [];
  const trajectories = steps.map(({ step }) =>
    readFileSync(join(runDir, 'trajectories', `step_${step}.jsonl`), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { end: { kind: string }; reward?: number }),
  );
  return {
    rewards: steps.map(({ metrics }) => metrics['critic/score/mean']!),
    gradNorms: steps.map(({ metrics }) => metrics['actor/grad_norm']!),
    trajectories: trajectories.map(({ length }) => length),
    failed: trajectories.flat().filter(({ end }) => end?.kind === 'failed').length,
  };
}
