import { detectToolFormat } from '../../src/chat/detect.ts';
import { compileTemplate } from '../../src/chat/template.ts';
import type { Tokenizer } from '../../src/chat/tokenizer.ts';
import { byteLevelTokenizer } from '../../test/chat-models.ts';

const MARKS =
  /<\|[^\s<>|'"{}]{1,40}\|>|<｜[^\s<>'"{}]{1,40}｜>|<[a-z_]*(?:turn|image|audio)[a-z_]*>|\[\/?[A-Z_]{2,24}\]|<\|[a-z_]+>|<[a-z_]+\|>|<seed:[a-z]+>|\]~!?b[\][]|\[e~\[/g;

/**
 * A byte-level tokenizer with the marks of a template as tokens, for templates whose tokenizer cannot be had. What it
 * shows is about the template, not about the model's tokens. A reply ends with what the template writes after one.
 */
export function standInTokenizer(template: string): Tokenizer {
  const format = detectToolFormat(template);
  const marks = [...(format?.blocks ?? []).flatMap(({ open, close }) => [open, ...close])].filter((mark) =>
    /^<[^\s]+>$|^\[[A-Z_]+\]$/.test(mark),
  );
  const written = endMark(template);
  const isPart = [...(format?.ignored ?? [])].some(
    (mark) => mark !== written && mark.startsWith(written ?? ' '),
  );
  const end = (isPart ? format?.stopTokens?.[0] : written) ?? '</s>';
  const special = new Set(['<s>', '</s>', end, ...(template.match(MARKS) ?? [])]);
  return byteLevelTokenizer(
    [
      ...[...special].map((text) => ({ text })),
      ...[...new Set(marks)].filter((mark) => !special.has(mark)).map((text) => ({ text, special: false })),
    ],
    { bos_token: '<s>', eos_token: end },
  );
}

/** The mark right after a reply in the middle of a dialogue. */
function endMark(template: string): string | undefined {
  const said = 'These are my words.';
  try {
    const render = compileTemplate(template, {
      variables: { bos_token: '<s>', eos_token: '</s>' },
      date: new Date(0),
    });
    const messages = [
      { role: 'user', content: 'Hello.' },
      { role: 'assistant', content: said },
      { role: 'user', content: 'Go on.' },
    ];
    const text = render({ messages, tools: [], addGenerationPrompt: true });
    const after = text.slice(text.indexOf(said) + said.length);
    return /^\s*(<[^\s<>]{1,40}>|\[\/?[A-Z_]{2,24}\]|\[e~\[)/.exec(after)?.[1];
  } catch {
    return undefined; // a template may refuse the dialogue; its self-test says so
  }
}
