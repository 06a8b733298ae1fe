/** Rows, gradients and answers in the shapes that the Tinker protocol sends as JSON. */
import { TrainerError } from '../errors.ts';
import type { Row } from '../training/trainer.ts';

interface Tensor {
  readonly data: readonly number[];
  readonly dtype: 'int64' | 'float32';
  readonly shape: readonly [number];
}

/** One sequence: index i of every tensor belongs to the token that follows `tokens[i]`. */
interface Datum {
  readonly model_input: {
    readonly chunks: readonly [{ readonly type: 'encoded_text'; readonly tokens: readonly number[] }];
  };
  readonly loss_fn_inputs: Readonly<Record<string, Tensor>>;
}

/** The server's losses that carry a gradient as advantages. PPO's has the server's own clip, which a ratio of 1 never meets. */
export const ADVANTAGE_LOSSES = ['importance_sampling', 'ppo'] as const;

/** What a server does with a batch. */
export type Loss = 'cross_entropy' | (typeof ADVANTAGE_LOSSES)[number];

export interface LossInput {
  readonly data: readonly Datum[];
  readonly loss_fn: Loss;
}

/** The answer to `forward` and to `forward_backward`. */
export interface LossOutput {
  readonly loss_fn_outputs: readonly { readonly logprobs: { readonly data: readonly number[] } }[];
  readonly metrics?: Readonly<Record<string, number>>;
}

/** `inputs` are of the row's length, one number per token; that of the first token, which nothing predicts, is dropped. */
export function datumOf(row: Row, inputs: Readonly<Record<string, Float32Array>>): Datum {
  const ids = Array.from(row.ids);
  const tensors = Object.entries(inputs).map(([name, values]) => [
    name,
    numbers(Array.from(values.subarray(1))),
  ]);
  return {
    model_input: { chunks: [{ type: 'encoded_text', tokens: ids.slice(0, -1) }] },
    loss_fn_inputs: {
      target_tokens: { ...numbers(ids.slice(1)), dtype: 'int64' },
      ...(Object.fromEntries(tensors) as Record<string, Tensor>),
    },
  };
}

const numbers = (data: readonly number[]): Tensor => ({ data, dtype: 'float32', shape: [data.length] });

/** One array per row, of the row's length, 0 where there is no target. */
export function logprobsOf(output: LossOutput, rows: readonly Row[]): Float32Array[] {
  const answers = output.loss_fn_outputs;
  if (answers?.length !== rows.length) {
    throw new TrainerError(`the server answered for ${answers?.length ?? 0} of ${rows.length} sequences`);
  }
  return rows.map(({ ids, targets }, row) => {
    const data = answers[row]?.logprobs?.data;
    if (data?.length !== ids.length - 1) {
      throw new TrainerError(
        `the server gave ${data?.length ?? 0} log-probs for sequence ${row}, which has ${ids.length - 1} tokens to predict`,
      );
    }
    return Float32Array.from(ids, (_, at) => (targets[at] ? data[at - 1]! : 0));
  });
}

/** Limits of one request: the hosted service takes 1024 sequences and 5 MB, of which a token takes up to 80 bytes. */
const MOST_SEQUENCES = 1024;
const MOST_TOKENS = 50_000;

/** Splits items, in their order, so that each part fits into one request. */
export function requestsOf<T extends { readonly row: Row }>(items: readonly T[]): T[][] {
  const parts: T[][] = [];
  let tokens = 0;
  for (const item of items) {
    const part = parts.at(-1);
    tokens += item.row.ids.length;
    if (part && part.length < MOST_SEQUENCES && tokens <= MOST_TOKENS) part.push(item);
    else {
      parts.push([item]);
      tokens = item.row.ids.length;
    }
  }
  return parts;
}
