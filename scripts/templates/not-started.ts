/** Templates with which a run does not start, and why that is right. Whatever else fails misses an aim. */
export const NOT_STARTED: Readonly<Record<string, string>> = {
  'InternLM 2':
    "the package's tokenizer.json lacks the marks of its own template: <|im_end|> is ordinary text in it",
  'Kimi-K2-Instruct': 'the template changes a list with `append`, which transformers refuses too',
  'Kimi-K2-Thinking': 'the template changes a list with `append`, which transformers refuses too',
  'fireworks-ai-llama-3-firefunction-v2':
    'the template needs a variable `functions`; transformers refuses it too without one',
  'llama-cpp-deepseek-r1': 'the template makes JSON of a generator, which transformers refuses too',
  'llama-cpp-rwkv-world': 'replies end with a blank line, not with a token that an engine could stop at',
  'muse-glimmer': 'it writes calls in a format of its own; the run says so and names the nearest ones',
};
