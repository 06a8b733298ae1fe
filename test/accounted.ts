/** Words that nothing else writes: `za0bz`, `za1bz`, … */
export const word = (index: number): string => `za${index}bz`;

interface ReadReply {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly unknown[];
  readonly problems: readonly { readonly source: string }[];
}

/**
 * Of `count` words in a reply, those that are not in exactly one of: its content, its reasoning, one of its calls,
 * one of its problems. Where a call's id repeats its name, that is one place.
 */
export function unaccounted(reply: ReadReply, count: number): { word: string; places: number }[] {
  const texts = [
    reply.content,
    reply.reasoning,
    ...reply.problems.map(({ source }) => source),
    ...reply.calls.map((call) => JSON.stringify(call)),
  ];
  return Array.from({ length: count }, (_, index) => word(index))
    .map((each) => ({ word: each, places: texts.filter((text) => text.includes(each)).length }))
    .filter(({ places }) => places !== 1);
}
