type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * A pre-tokenizer that parts digits, written so that it parts every numeral: in Rust `Digits` goes by Unicode
 * (`²`, `½`, `١`), in the JavaScript library by 0 to 9.
 */
export function withAllNumerals(preTokenizer: unknown): unknown {
  if (!isObject(preTokenizer)) return preTokenizer;
  if (preTokenizer.type === 'Digits') {
    const pattern = { Regex: preTokenizer.individual_digits ? '\\p{N}' : '\\p{N}+' };
    return { type: 'Split', pattern, behavior: 'Isolated', invert: false };
  }
  if (!Array.isArray(preTokenizer.pretokenizers)) return preTokenizer;
  return { ...preTokenizer, pretokenizers: preTokenizer.pretokenizers.map(withAllNumerals) };
}
