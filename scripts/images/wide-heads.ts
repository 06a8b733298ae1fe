/**
 * The same model with decoder heads twice as wide, for a server without kernels for narrow ones: vLLM's attention on a CPU begins
 * at 32. What is added is zero and stays zero in training; every output is what it was, but for rounding.
 *
 * The hidden size doubles with the heads, as Qwen2.5-VL's head is its hidden size over its heads. A norm then divides by the root of
 * half the mean, an attention by a root of two more, and a pair of a head turns as before with the square of the base.
 */
import { join } from 'node:path';
import {
  FileSet,
  type NamedTensor,
  readJson,
  readTensors,
  TOKENIZER_FILES,
} from '../../src/engine/model/files.ts';

interface Config {
  readonly hidden_size: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  readonly rope_scaling: { readonly mrope_section: readonly [number, number, number] };
  readonly vision_config: Readonly<Record<string, unknown>>;
}

/** Which of the new places each old one takes. */
type Places = readonly number[];

export function writeWideHeads(from: string, to: string): void {
  const config = readJson(join(from, 'config.json')) as Config;
  const { hidden_size: hidden, num_attention_heads: heads, num_key_value_heads: kvHeads } = config;
  const size = hidden / heads;
  const { tensors } = readTensors(join(from, 'model.safetensors'));
  const same: Places = Array.from({ length: hidden }, (_, at) => at);
  // A pair is a head's place and the one half a head further: both halves grow at their end.
  const paired = (count: number) => headPlaces(count, size, (at) => (at < size / 2 ? at : at + size / 2));
  const plain = (count: number) => headPlaces(count, size, (at) => at);
  const wider = (tensor: NamedTensor): NamedTensor => {
    const { name } = tensor;
    const rows = (places: Places, total: number, factor = 1) => grown(tensor, 0, places, total, factor);
    if (name.includes('.q_proj.')) return widerInput(rows(paired(heads), 2 * hidden, Math.SQRT2));
    if (name.includes('.k_proj.')) return widerInput(rows(paired(kvHeads), 2 * kvHeads * size));
    if (name.includes('.v_proj.')) return widerInput(rows(plain(kvHeads), 2 * kvHeads * size));
    if (name.includes('.o_proj.')) return grown(rows(same, 2 * hidden), 1, plain(heads), 2 * hidden);
    if (/norm\.weight$/.test(name)) return rows(same, 2 * hidden, Math.SQRT1_2);
    if (name.includes('.down_proj.')) return rows(same, 2 * hidden);
    return widerInput(tensor);
  };
  const widerInput = (tensor: NamedTensor) =>
    tensor.shape.length < 2 ? tensor : grown(tensor, 1, same, 2 * hidden);
  const isSeeing = ({ name }: NamedTensor) => name.startsWith('visual.');
  const decoder = tensors.filter((tensor) => !isSeeing(tensor)).map(wider);
  const eyes = tensors
    .filter(isSeeing)
    .map((tensor) => (/merger\.mlp\.2\./.test(tensor.name) ? grown(tensor, 0, same, 2 * hidden) : tensor));
  const head = decoder.find(({ name }) => name === 'model.embed_tokens.weight')!;
  const [time, row, column] = config.rope_scaling.mrope_section;
  const files = new FileSet(to);
  const wide = {
    ...config,
    hidden_size: 2 * hidden,
    head_dim: 2 * size,
    rms_norm_eps: config.rms_norm_eps / 2,
    rope_theta: config.rope_theta ** 2,
    rope_scaling: { ...config.rope_scaling, mrope_section: [time, row, column + size / 2] },
    vision_config: { ...config.vision_config, out_hidden_size: 2 * hidden },
    tie_word_embeddings: false, // vLLM on a CPU keeps a tied head when weights are loaded again
  };
  files.text('config.json', `${JSON.stringify(wide, null, 2)}\n`);
  files.tensors('model.safetensors', [...decoder, ...eyes, { ...head, name: 'lm_head.weight' }]);
  files.copy(from, TOKENIZER_FILES);
  files.commit();
}

const headPlaces = (heads: number, size: number, place: (at: number) => number): Places =>
  Array.from({ length: heads * size }, (_, at) => Math.floor(at / size) * 2 * size + place(at % size));

/** `tensor` with `total` places along an axis; what was at `at` is at `places[at]` times `factor`, the rest is zero. */
function grown(tensor: NamedTensor, axis: 0 | 1, places: Places, total: number, factor = 1): NamedTensor {
  const [rows, columns = 1] = tensor.shape as [number, number?];
  const shape = axis === 0 ? [total, ...tensor.shape.slice(1)] : [rows, total];
  const width = axis === 0 ? columns : total;
  const data = new Float32Array(shape.reduce((product, length) => product * length, 1));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const to = axis === 0 ? places[row]! * width + column : row * width + places[column]!;
      data[to] = factor * tensor.data[row * columns + column]!;
    }
  }
  return { ...tensor, shape, data };
}
