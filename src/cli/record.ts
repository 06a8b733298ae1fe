import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { agent } from '../agent/agent.ts';
import { ENDPOINT_RULES, type Endpoint } from '../agent/endpoint.ts';
import { ConfigError } from '../errors.ts';
import { counted } from '../lib/counted.ts';
import { resolvePlain } from '../options.ts';
import { rollout } from '../rollout.ts';
import { openDoor } from '../serve/endpoint/door.ts';
import type { Trajectory } from '../types.ts';
import { createRunDirectory } from '../watch/run-directory.ts';
import { writeRunEnd } from '../watch/run-end.ts';
import { writeTrajectories } from '../watch/trajectory-store.ts';
import { port, whole } from './number.ts';
import { openPolicy } from './open-policy.ts';
import { notEmpty } from './text.ts';

interface RecordFlags {
  readonly model: string;
  readonly run: string;
  readonly host: string;
  readonly port: number;
  readonly tokensPerReply: number;
}

/** A session ends when its user says so. */
const MANY = 1_000_000;

export function registerRecord(program: Command): void {
  program
    .command('record')
    .description(
      'a URL for one session of your agent; records its tokens as training would, and trains nothing',
    )
    .requiredOption('--model <directory>', 'a model folder, or a name on the Hugging Face Hub')
    .option('--run <dir>', 'where the record goes, as a run directory', notEmpty, 'runs/record')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <n>', '0 takes a free one', port, 0)
    .option('--tokens-per-reply <n>', 'at most', whole(1), 1024)
    .addHelpText('after', '\nExample: rollcall record --model runs/quickstart-1/warm-start')
    .action(record);
}

async function record(flags: RecordFlags): Promise<void> {
  const runDir = resolve(flags.run);
  if (existsSync(runDir))
    throw new ConfigError(`${runDir} is already there; choose another folder with --run`);
  const interrupted = interruption();
  const recorder = agent(async ({ endpoint }) => {
    const opened = await endpoint();
    console.log(instructions(opened));
    const completed = await Promise.race([opened.completed, interrupted.promise]);
    if (completed?.error !== undefined) throw new Error(completed.error);
  });
  const plain = resolvePlain({
    limits: {
      turns: MANY,
      tokensPerReply: flags.tokensPerReply,
      tokensPerTrajectory: MANY,
      secondsPerTrajectory: MANY,
    },
  });
  const { server, format, images, limits, directory } = await openPolicy(flags.model, {
    ...plain,
    agent: recorder,
  });
  const door = openDoor({ ...ENDPOINT_RULES, host: flags.host, port: flags.port });
  try {
    const groups = await rollout({
      tasks: [{ index: 0, task: {} }],
      attempts: 1,
      step: 1,
      name: 'record',
      agent: recorder,
      rewards: [],
      server,
      format,
      images,
      limits,
      door,
      sampling: plain.sampling,
      seed: plain.seed,
      failures: { tolerateShare: 1 },
    });
    await createRunDirectory(runDir, { ...plain, model: directory, agent: { name: 'record' } });
    await writeTrajectories(runDir, 1, groups);
    await writeRunEnd(runDir, { state: 'finished', step: 0 }); // it trains nothing
    console.log(summary(groups[0]!.attempts[0]!.trajectory));
    console.log(`rollcall show ${flags.run}    # every token`);
  } finally {
    interrupted.off();
    await door.close();
    await server.close();
  }
}

/** Ctrl-C ends the session, not the program: what was recorded is written first. */
function interruption() {
  let interrupt = () => {};
  const promise = new Promise<undefined>((resolve) => {
    interrupt = () => resolve(undefined);
  });
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  return { promise, off: () => process.off('SIGINT', interrupt).off('SIGTERM', interrupt) };
}

function instructions({ openai, anthropic, apiKey, url }: Endpoint): string {
  return [
    'Run your agent with these, then press Ctrl-C (or POST to $ROLLCALL_URL/complete):',
    `export OPENAI_BASE_URL=${openai}`,
    `export OPENAI_API_KEY=${apiKey}`,
    `export ANTHROPIC_BASE_URL=${anthropic}`,
    `export ANTHROPIC_API_KEY=${apiKey}`,
    `export ROLLCALL_URL=${url}`,
  ].join('\n');
}

function summary({ turns, segments, endpoint, end, ownReward }: Trajectory): string {
  const count = (column: 'sampled' | 'trained') =>
    segments.reduce((sum, segment) => sum + segment[column].reduce((a, b) => a + b, 0), 0);
  const { requests = 0, forcedSampling = 0, ignoredFields = {} } = endpoint ?? {};
  const ignored = Object.entries(ignoredFields).map(([name, times]) => `${name} (${times})`);
  return [
    `${counted(requests, 'request')}, ${counted(turns.length, 'reply', 'replies')} in ` +
      `${counted(segments.length, 'segment')}: ${counted(count('sampled'), 'token')} sampled, ` +
      `${count('trained')} would be trained.`,
    ...(forcedSampling > 0
      ? [`${counted(forcedSampling, 'request')} asked for other sampling options than the run's.`]
      : []),
    ...(ignored.length > 0 ? [`Fields without effect: ${ignored.join(', ')}.`] : []),
    ...(ownReward === undefined ? [] : [`Reward ${ownReward}.`]),
    ...(end.kind === 'failed' ? [`It failed: ${end.message}`] : []),
  ].join('\n');
}
