import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import pc from 'picocolors';
import { agent } from '../agent/agent.ts';
import type { Tool } from '../agent/tool.ts';
import type { ServedAs } from '../engine/arithmetic.ts';
import { embedded } from '../engine/embedded.ts';
import { gateway } from '../gateway/gateway.ts';
import { rollout } from '../rollout.ts';
import { openChatFormat } from '../run/chat-format.ts';
import { runPaths } from '../watch/run-directory.ts';
import { number, whole } from './number.ts';
import { textOf } from './print-trajectory.ts';
import { modelOf, readNamed } from './recorded-run.ts';
import { trainedWith } from './trained-with.ts';
import { weightsOption } from './weights-option.ts';

interface ChatFlags {
  readonly config?: string;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly weights: ServedAs;
}

export function registerChat(program: Command): void {
  program
    .command('chat')
    .description('talk to the model of a run (its newest checkpoint) or of a directory, tools included')
    .argument('<run>', 'run directory, model directory, or a run file, YAML or script: its model')
    .argument('[overrides...]', "changes to the run's options, such as chat.format=hermes")
    .option(
      '--config <file>',
      "run file, YAML or script whose agent's tools are offered; the run's own if not given",
    )
    .option('--temperature <t>', '0 is greedy', number(0), 0)
    .option('--max-tokens <n>', 'tokens per reply', whole(1), 512)
    .addOption(weightsOption())
    .action((run: string, overrides: string[], flags: ChatFlags) =>
      converse(readNamed(run, overrides, flags.config), flags),
    );
}

async function converse(
  { path, words }: ReturnType<typeof readNamed>,
  { temperature, maxTokens, weights }: ChatFlags,
): Promise<void> {
  const { tools, chat, close, ...described } = await trainedWith(path, words);
  const isRun = path !== undefined && existsSync(runPaths(path).options);
  const model = isRun ? await modelOf(path) : (path ?? described.model);
  const { directory, format } = await openChatFormat(model, {
    chat,
    tools: tools.length > 0,
  });
  const servers = await embedded({ weights }).servers.open(directory);
  const server = gateway(servers);
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  console.log(
    pc.dim(`${directory}${tools.length > 0 ? `, tools: ${tools.map(({ name }) => name).join(', ')}` : ''}`),
  );
  console.log(pc.dim('Each line is a question; an empty line, or Ctrl-D, ends the conversation.'));
  const ask = questionsOf(terminal);
  try {
    const first = await ask();
    if (first === '') return;
    const { contextTokens } = await server.info();
    await rollout({
      tasks: [{ index: 0, task: {} }],
      attempts: 1,
      step: 0,
      agent: conversation(first, ask, tools),
      rewards: [],
      server,
      format,
      seed: 1,
      sampling: { temperature },
      limits: {
        turns: Number.MAX_SAFE_INTEGER,
        tokensPerReply: maxTokens,
        tokensPerTrajectory: contextTokens,
        contextTokens,
        secondsPerTrajectory: Number.POSITIVE_INFINITY,
      },
      stopOnAgentFailure: true,
    });
  } finally {
    terminal.close();
    await server.close();
    await close();
  }
}

type Ask = (signal?: AbortSignal) => Promise<string>;

/** The next line of a person; empty at the end of the conversation. */
function questionsOf(terminal: ReturnType<typeof createInterface>): Ask {
  const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
  return async (signal) => {
    const said = await Promise.race([
      terminal.question(pc.bold('you    '), signal ? { signal } : {}).catch(() => ''),
      closed, // a question never ends that meets the end of its input
    ]);
    if (said.trim() === '') return '';
    if (!process.stdin.isTTY) console.log(said); // a terminal shows what is typed
    return said;
  };
}

/** A person as the user: the same agent machinery as in training, so what is seen here is what was trained. */
function conversation(first: string, ask: Ask, tools: readonly Tool[]) {
  return agent(async ({ model, signal }) => {
    const dialogue = model.chat({ tools });
    for (let said = first; said !== ''; said = await ask(signal)) {
      dialogue.user(said);
      for (;;) {
        const reply = await dialogue.sample();
        if (reply.content.trim() !== '')
          console.log(`${pc.bold(pc.green('model  '))}${reply.content.trim()}`);
        if (reply.final) break;
        for (const { call, result } of await dialogue.runTools(reply)) {
          console.log(pc.cyan(`       ${call.name}(${JSON.stringify(call.arguments)}) → ${textOf(result)}`));
        }
        for (const { message } of reply.problems) console.log(pc.red(`       ${message}`));
      }
    }
  });
}
