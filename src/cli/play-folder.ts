/** A folder in which the model of a run answers in a browser: a page, its script, and the model as a script. */
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { loadModelFiles } from '../chat/model-files.ts';
import { nativeDirectory } from '../engine/kernels/native-directory.ts';
import { readModelConfig, readWeights } from '../engine/model/files.ts';
import { countParameters, weightElements } from '../engine/model/weights.ts';
import { ConfigError } from '../errors.ts';
import type { ChatOverrides } from '../options.ts';
import type { ToolSchema } from '../types.ts';
import { packageRoot, runVite } from '../watch/dashboard/page.ts';
import { runPaths } from '../watch/run-directory.ts';
import { listSteps, readStepIndex, readTrajectory } from '../watch/trajectory-store.ts';
import { modelOf, wholePath } from './recorded-run.ts';
import { trainedWith } from './trained-with.ts';

/** A browser holds the weights as text, as numbers and packed. */
const MOST_PARAMETERS = 60e6;
const EXAMPLES = 4;

export async function writePlayFolder(name: string, out: string): Promise<void> {
  const folder = resolve(out);
  const run = wholePath(name);
  const isRun = existsSync(runPaths(run).options);
  const model = isRun ? await modelOf(run) : run;
  const { tools, chat, close } = await trainedWith(run, { overrides: [] });
  await close();
  const files = await modelOfPage(model, {
    tools: tools.map(({ schema }) => schema),
    chat,
    ...(isRun ? await opening(run) : { examples: [] }),
  });
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'model.js'), `var ROLLCALL_PLAY = ${JSON.stringify(files)};\n`);
  await copyPage(folder);
}

interface Spoken {
  readonly tools: readonly ToolSchema[];
  readonly chat?: ChatOverrides | undefined;
  readonly system?: string;
  readonly examples: readonly string[];
}

async function modelOfPage(model: string, { tools, chat, ...opening }: Spoken) {
  const { folder, templates, eosIds } = await loadModelFiles(model);
  if (existsSync(join(folder, 'adapter_config.json'))) {
    throw new ConfigError(
      `${folder} is an adapter; add it to its model first: rollcall model merge ${folder} OUT`,
    );
  }
  const config = readModelConfig(folder);
  const parameters = countParameters(config);
  if (parameters > MOST_PARAMETERS) {
    throw new ConfigError(
      `${folder} has ${Math.round(parameters / 1e6)}M parameters; a page can hold ${MOST_PARAMETERS / 1e6}M`,
    );
  }
  const template = chat?.template ?? templates.tool_use ?? templates.default;
  if (template === undefined) throw new ConfigError(`${folder} has no chat template`);
  const weights = new Float32Array(parameters);
  let offset = 0;
  readWeights(folder, config, (spec) => {
    offset += weightElements(spec);
    return weights.subarray(offset - weightElements(spec), offset);
  });
  const json = async (file: string) =>
    JSON.parse(await readFile(join(folder, file), 'utf8').catch(() => '{}')) as unknown;
  return {
    name: `A model of ${(parameters / 1e6).toFixed(1)}M parameters, trained with Rollcall`,
    config,
    tokenizer: await json('tokenizer.json'),
    tokenizerConfig: await json('tokenizer_config.json'),
    template,
    ...(typeof chat?.toolFormat === 'string' ? { toolFormat: chat.toolFormat } : {}),
    eosIds,
    tools,
    ...opening,
    weights: Buffer.from(weights.buffer).toString('base64'),
    kernels: (await readFile(join(nativeDirectory, 'kernels.wasm'))).toString('base64'),
  };
}

/** What the run's own dialogues began with: its system message, and a few questions. */
async function opening(run: string): Promise<Pick<Spoken, 'system' | 'examples'>> {
  const step = (await listSteps(run)).at(-1);
  if (step === undefined) return { examples: [] };
  const examples = new Set<string>();
  let system: string | undefined;
  for (const entry of (await readStepIndex(run, step)).trajectories) {
    const { messages } = (await readTrajectory(run, step, entry)).trajectory;
    const first = (wanted: string) => {
      const content = messages.find(({ role }) => role === wanted)?.content;
      return typeof content === 'string' ? content : undefined;
    };
    system ??= first('system');
    const question = first('user');
    if (question !== undefined) examples.add(question);
    if (examples.size >= EXAMPLES) break;
  }
  return { examples: [...examples].slice(0, EXAMPLES), ...(system === undefined ? {} : { system }) };
}

/** The package has the page built; a clone builds it. */
async function copyPage(folder: string): Promise<void> {
  const root = packageRoot();
  const sources = join(root, 'play');
  const built = join(root, 'dist', 'play');
  if (existsSync(join(sources, 'index.html'))) {
    await runVite(sources, built);
    await copyFile(join(sources, 'index.html'), join(built, 'index.html'));
  }
  for (const file of ['index.html', 'play.js']) await copyFile(join(built, file), join(folder, file));
}
