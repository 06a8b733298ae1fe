import { detectToolFormat } from '../../src/chat/detect.ts';
import type { Tokenizer } from '../../src/chat/tokenizer.ts';
import { byteLevelTokenizer } from '../../test/chat-models.ts';

const MARKS =
  /<\|[^\s<>|'"{}]{1,40}\|>|<｜[^\s<>'"{}]{1,40}｜>|<[a-z_]*(?:turn|image|audio)[a-z_]*>|\[\/?[A-Z_]{2,24}\]|<\|[a-z_]+>|<[a-z_]+\|>/g;

/**
 * A byte-level tokenizer with the marks of a template as tokens, for templates whose tokenizer cannot be had. What it
 * shows is about the template, not about the model's tokens.
 */
export function standInTokenizer(template: string): Tokenizer {
  const format = detectToolFormat(template);
  const marks = [...(format?.blocks ?? []).flatMap(({ open, close }) => [open, ...close])].filter((mark) =>
    /^<[^\s]+>$|^\[[A-Z_]+\]$/.test(mark),
  );
  const special = new Set(['<s>', '</s>', ...(template.match(MARKS) ?? [])]);
  return byteLevelTokenizer(
    [
      ...[...special].map((text) => ({ text })),
      ...[...new Set(marks)].filter((mark) => !special.has(mark)).map((text) => ({ text, special: false })),
    ],
    { bos_token: '<s>', eos_token: '</s>' },
  );
}
