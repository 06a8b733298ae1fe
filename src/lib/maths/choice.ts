/** Multiple choice: the right answer is a letter. */

const LETTER = /^\W*([A-Z])\W*$/;

/** The letter, if that is all a text says: `B`, `(B)`, `\text{(B)}`, `**B.**`. */
export function choiceOf(text: string): string | undefined {
  return LETTER.exec(withoutCommands(text))?.[1];
}

export const isChoice = (text: string): boolean => choiceOf(text) !== undefined;

/** The letter at the start of what an answer says: `(B) 12`, `B. Paris`, `B: 12`. */
export function labelOf(text: string): string | undefined {
  const plain = withoutCommands(text).trim();
  if (/^\(?[A-Z]\)?\s*(?:,|and\b|or\b|&)\s*\(?[A-Z]\b/.test(plain)) return undefined; // two letters are not a choice
  return choiceOf(text) ?? /^(?:\(([A-Z])\)|([A-Z])(?:[.):]|\)))(?=\s|$)/.exec(plain)?.slice(1).find(Boolean);
}

/** The letter that a sentence ends on or names last, where no answer was marked. */
export function lastChoice(reply: string): string | undefined {
  const tail = withoutCommands(reply.slice(-1000));
  return [...tail.matchAll(/(?<![\w'])\(?([A-J])\)?(?=[\s.,:;*)]|$)(?!\s+[a-z])/g)].at(-1)?.[1];
}

const withoutCommands = (text: string) =>
  text
    .replace(/\\(?:text(?:bf|rm|it)?|mathrm|mathbf|mbox|boxed)\s*\{([^{}]*)\}/g, '$1')
    .replace(/\\[ ,;!]|[$*{}]/g, ' ');
