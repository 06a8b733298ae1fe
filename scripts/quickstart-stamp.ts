/** A stamp of the sources that decide the quick start's figures: when it changes, the figures may. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import ts from 'typescript';

/**
 * Files that compute its weights, tokens or rewards. Left out is what only reports or stores, what other models and
 * algorithms use, and the template language, whose output is held fixed by golden files.
 */
const DECIDING = [
  /^examples\/quickstart\/(?!curve-svg|report)[\w-]+\.ts$/,
  /^native\/\w+\.[ch]$/,
  /^src\/engine\/(?!.*(inspect|lora|memory|testing))/,
  /^src\/training\/(advantages|losses)\//,
  /^src\/training\/algorithms\/(define|grpo)\.ts$/,
  /^src\/training\/(batch|credit|learning-rate|micro-batches|optimizer-options|parts|score|statistics|update-\w+)\.ts$/,
  /^src\/chat\/(chat|chat-format|demonstration|junction|reply-parser|reply-sampler|template|template-messages|tokenizer|transcript)\.ts$/,
  /^src\/chat\/formats\/(hermes|grammar|json-block|json-scan)\.ts$/,
  /^src\/agent\/(budget|limits|replies|run-calls|run-tool|sampling|shorten|tool|tool-loop|trajectory|trajectory-record|whole-reply)\.ts$/,
  /^src\/dataset\/(permutation|sampler)\.ts$/,
  /^src\/lib\/random\.ts$/,
  /^src\/modes\/(admitted-groups|choose-groups|synchronous)\.ts$/,
  /^src\/reward\/(reward|score)\.ts$/,
  /^src\/rollout(\/[\w-]+)?\.ts$/,
  /^src\/run\/(adam-at|update-options|weights)\.ts$/,
  /^src\/(evaluate|train)\.ts$/,
];

export function decidingFiles(): string[] {
  return ['examples/quickstart', 'native', 'src']
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(
        (file) => `${folder}/${file.replaceAll('\\', '/')}`,
      ),
    )
    .filter((file) => /\.[tch]s?$/.test(file) && !file.endsWith('.test.ts'))
    .filter((file) => DECIDING.some((pattern) => pattern.test(file)))
    .sort();
}

/** Types and comments decide nothing, so they are not part of the stamp. */
function codeOf(file: string, text: string): string {
  if (!file.endsWith('.ts')) return text;
  const compilerOptions = {
    removeComments: true,
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.ESNext,
  };
  return ts.transpileModule(text, { compilerOptions }).outputText;
}

export function quickstartStamp(): string {
  const hash = createHash('sha256');
  for (const file of decidingFiles()) hash.update(`${file}\0${codeOf(file, readFileSync(file, 'utf8'))}\0`);
  return hash.digest('hex').slice(0, 12);
}
