import { existsSync, readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { RollcallError } from '../errors.ts';

type Register = (program: Command) => void;

/** One file a command, loaded only when it is the one asked for; `rollcall --help` loads them all, under these headings. */
const GROUPS: Record<string, Record<string, () => Promise<Register>>> = {
  'Start here': {
    init: async () => (await import('./init.ts')).registerInit,
    quickstart: async () => (await import('./quickstart.ts')).registerQuickstart,
    preview: async () => (await import('./preview.ts')).registerPreview,
    record: async () => (await import('./record.ts')).registerRecord,
    train: async () => (await import('./train.ts')).registerTrain,
    show: async () => (await import('./show.ts')).registerShow,
    watch: async () => (await import('./watch.ts')).registerWatch,
  },
  'Look at a run': {
    status: async () => (await import('./status.ts')).registerStatus,
    verify: async () => (await import('./verify.ts')).registerVerify,
    report: async () => (await import('./report.ts')).registerReport,
    chat: async () => (await import('./chat.ts')).registerChat,
    fork: async () => (await import('./fork.ts')).registerFork,
    score: async () => (await import('./score.ts')).registerScore,
    eval: async () => (await import('./eval.ts')).registerEval,
    export: async () => (await import('./export.ts')).registerExport,
    replay: async () => (await import('./replay.ts')).registerReplay,
  },
  'Models and servers': {
    sft: async () => (await import('./sft.ts')).registerSft,
    model: async () => (await import('./model.ts')).registerModel,
    serve: async () => (await import('./serve.ts')).registerServe,
    servers: async () => (await import('./servers.ts')).registerServers,
    generate: async () => (await import('./generate.ts')).registerGenerate,
    logprobs: async () => (await import('./logprobs.ts')).registerLogprobs,
    torch: async () => (await import('./torch.ts')).registerTorch,
    launch: async () => (await import('./launch.ts')).registerLaunch,
  },
  'Data, tools and people': {
    data: async () => (await import('./data.ts')).registerData,
    tools: async () => (await import('./tools.ts')).registerTools,
    questions: async () => (await import('./questions.ts')).registerQuestions,
    parse: async () => (await import('./parse.ts')).registerParse,
  },
  'This machine and its settings': {
    doctor: async () => (await import('./doctor.ts')).registerDoctor,
    options: async () => (await import('./options.ts')).registerOptions,
    bench: async () => (await import('./bench.ts')).registerBench,
  },
};

export async function main(argv: readonly string[]): Promise<void> {
  // The reader of the output (`| head`) has gone: the command continues.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  const asked = argv.find((word) => !word.startsWith('-'));
  const program = await createProgram(asked);
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    process.exitCode = report(error, argv.includes('--debug'));
  }
}

/** The program with the command asked for; with all of them where there is none of that name. */
export async function createProgram(asked?: string): Promise<Command> {
  const program = new Command('rollcall')
    .description('Trains the model behind a tool-using agent by reinforcement learning.')
    .version(packageVersion(), '--version', 'print the version')
    .option('--debug', 'show stack traces of errors')
    .exitOverride();
  const all = Object.entries(GROUPS).flatMap(([heading, commands]) =>
    Object.entries(commands).map(([name, load]) => ({ heading, name, load })),
  );
  const wanted = all.filter(({ name }) => name === asked);
  for (const { heading, load } of wanted.length > 0 ? wanted : all) {
    (await load())(program);
    program.commands.at(-1)?.helpGroup(`${heading}:`);
  }
  const help = new Command('help').argument('[command]').description('what a command does, and its options');
  program.addHelpCommand(help.helpGroup('Help:'));
  markRequired(program);
  return program;
}

/** In `--help`, which option a command does not run without. */
function markRequired({ commands, options }: Command): void {
  for (const option of options) if (option.mandatory) option.description += ' (required)';
  for (const command of commands) markRequired(command as Command);
}

function packageVersion(): string {
  // From source this file is two folders below package.json, from dist three.
  const near = new URL('../../package.json', import.meta.url);
  const file = existsSync(near) ? near : new URL('../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/** One clear message and exit code 1; a stack trace only for our own bugs or when asked. */
function report(error: unknown, debug: boolean): number {
  if (error instanceof CommanderError) return error.exitCode; // commander has printed it
  if (!(error instanceof Error)) {
    console.error(`rollcall: ${String(error)}`);
  } else if (debug) {
    console.error(error);
  } else if (/\bENOSPC\b/.test(error.message)) {
    console.error(
      `rollcall: the disk is full (${error.message}); free some space, then continue with --resume`,
    );
  } else if (error instanceof RollcallError) {
    console.error(`rollcall: ${error.message}`);
  } else if (isSystemError(error)) {
    console.error(`rollcall: ${describeSystemError(error)}`);
  } else {
    console.error(`rollcall: ${error.name}: ${error.message} (an unexpected error; --debug shows where)`);
  }
  return 1;
}

type SystemError = Error & { readonly code: string; readonly path?: string };

function isSystemError(error: Error): error is SystemError {
  return 'code' in error && 'syscall' in error;
}

function describeSystemError({ code, path, message }: SystemError): string {
  const where = path === undefined ? '' : `: ${path}`;
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return `no permission${where}`;
    case 'ENOENT':
      return `no such file or directory${where}`;
    case 'EADDRINUSE':
      return `the port is in use: ${message}`;
    default:
      return message;
  }
}
