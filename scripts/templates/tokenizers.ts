import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ChatFormatOptions, createChatFormat } from '../../src/chat/chat-format.ts';
import { selfTest } from '../../src/chat/self-test.ts';
import { createTokenizer, type Tokenizer } from '../../src/chat/tokenizer.ts';
import { messageOf } from '../../src/lib/error-message.ts';
import type { Message } from '../../src/types.ts';
import type { AskPython } from './python.ts';
import type { Model } from './sources.ts';

/** Texts that tokenizers have got wrong: white space, line ends, emoji, combining marks, direction, digits. */
const TEXTS = [
  'Plain words, 12.5 % of them.',
  'def f(x):\n    if x:\n\treturn [\n            1,\n        ]\n',
  '\t\ttabs\tand  two   three    spaces     ',
  'one\r\ntwo\r\n\r\nthree\n\n\n\nfour',
  ' leading and trailing ',
  '👩‍👩‍👧 🇩🇪 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ✌️',
  'é and a\u0308, न\u093fम, Z\u0335\u0322a\u0334lgo',
  'שלום עולם, مرحبا بالعالم ١٢٣',
  '1234567890 007 3.14159 0x1F 1,000,000 ²³ ½ Ⅷ',
  '价格是 42 元。日本語テキスト한국어',
  "I'll we've don't IT'S \"quoted\" «so» 'tis",
  '{"name": "f", "arguments": {"a": [1, "b\\n"]}}',
  'a\u00a0b\u2003c\u200bd\ufeffe\u0000f',
];

export interface TokenizerReport {
  readonly name: string;
  readonly texts: number;
  /** Texts whose ids, or whose text back from the ids, are not those of the Rust library. */
  readonly different: readonly string[];
  /** What the self-test found; empty if all is well. */
  readonly failures: readonly string[];
  readonly withTools: boolean;
}

/** For tokenizers of models without a chat template. */
const PLAIN =
  "{% for message in messages %}{{ message.role + ': ' + message.content + (eos_token or '</s>') }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";

/** The real tokenizer of a model beside the Rust library, and through the self-test with its own template. */
export function checkTokenizer(model: Model, prompts: readonly string[], ask: AskPython): TokenizerReport {
  const folder = model.tokenizer!;
  const read = (file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8'));
  const tokenizer = createTokenizer(read('tokenizer.json'), read('tokenizer_config.json'));
  const texts = [...TEXTS, ...addedTokenTexts(tokenizer), ...prompts];
  const [theirs] = ask('encode-texts.py', [{ tokenizer: join(folder, 'tokenizer.json'), texts }]) as [
    { ids: number[][]; decoded: string[] },
  ];
  const different = texts.filter((text, at) => {
    const ids = theirs.ids[at]!;
    const isSame = JSON.stringify([...tokenizer.encode(text)]) === JSON.stringify(ids);
    return !isSame || tokenizer.decode(Int32Array.from(ids)) !== theirs.decoded[at];
  });
  const { failures, withTools } = openTemplate({ tokenizer, template: model.template ?? PLAIN });
  return {
    name: model.name,
    texts: texts.length,
    different,
    failures,
    withTools,
  };
}

/** One token of each class (special, not special, stripping white space), alone, between words and twice. */
function addedTokenTexts({ added }: Tokenizer): string[] {
  const classes = new Map(added.tokens.map((token) => [`${token.special} ${token.strips}`, token.text]));
  return [...classes.values()].flatMap((text) => [text, `a ${text} b`, `${text}${text}\n${text}x`]);
}

export interface Opened {
  readonly failures: readonly string[];
  /** Turns that begin a new segment, since appending cannot be proven. */
  readonly segments: number;
  readonly withTools: boolean;
}

/** The self-test, with tools where the template knows them, and with each way to treat earlier reasoning. */
export function openTemplate(options: ChatFormatOptions): Opened {
  try {
    const withTools = knowsTools(options);
    const report = selfTest(createChatFormat(options), { tools: withTools });
    const failed = report.checks.filter(({ outcome }) => outcome === 'failed');
    return {
      withTools,
      segments: report.checks.filter(({ outcome }) => outcome === 'segments').length,
      failures: [
        ...failed.map(({ name, detail = '' }) => `${name}: ${detail.split('\n').join(' ')}`),
        ...(['template', 'toolCycle'] as const).flatMap((keep) =>
          keepThinkingFailures(options, keep, withTools),
        ),
      ],
    };
  } catch (error) {
    return { withTools: false, segments: 0, failures: [messageOf(error)] };
  }
}

const PROBE = { name: 'probe_tool', description: 'Probes.', parameters: { type: 'object', properties: {} } };
const ASKED: Message = { role: 'user', content: 'Hello.' };

function knowsTools(options: ChatFormatOptions): boolean {
  const format = createChatFormat(options);
  const { ids } = format.renderPrompt([ASKED], [{ type: 'function', function: PROBE }]);
  return format.decode(ids).includes(PROBE.name);
}

/** With `template` and `toolCycle` a run starts too, tool turns included. */
function keepThinkingFailures(
  options: ChatFormatOptions,
  keepThinking: 'template' | 'toolCycle',
  tools: boolean,
): string[] {
  const { checks } = selfTest(createChatFormat({ ...options, keepThinking }), { tools });
  return checks
    .filter(({ outcome }) => outcome === 'failed')
    .map(({ name, detail = '' }) => `keepThinking ${keepThinking}, ${name}: ${detail.split('\n').join(' ')}`);
}
