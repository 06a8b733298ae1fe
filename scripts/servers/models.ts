/** Small models that real servers are proved with, all made of one warm start of the quick start. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  FileSet,
  type NamedTensor,
  readJson,
  readTensors,
  TOKENIZER_FILES,
} from '../../src/engine/model/files.ts';
import { createRandom } from '../../src/lib/random.ts';

export interface SmallModels {
  /** Embedding and output layer are one tensor. */
  readonly tied: string;
  /** The same model with an output layer beside the embedding. */
  readonly untied: string;
  /** The untied one, with every weight moved a little. */
  readonly moved: string;
  /** An adapter for either, of rank 4. */
  readonly adapter: string;
}

/** `warm` is a model folder; what is made of it lies in `directory`, and is made once. */
export function smallModels(warm: string, directory: string): SmallModels {
  const models = {
    tied: join(directory, 'tied'),
    untied: join(directory, 'untied'),
    moved: join(directory, 'moved'),
    adapter: join(directory, 'adapter'),
  };
  if (existsSync(join(models.adapter, 'adapter_config.json'))) return models;
  const config = readJson(join(warm, 'config.json')) as Record<string, unknown>;
  const { tensors } = readTensors(join(warm, 'model.safetensors'));
  const embedding = tensors.find(({ name }) => name === 'model.embed_tokens.weight')!;
  const untied = [...tensors, { ...embedding, name: 'lm_head.weight' }];
  writeModel(models.tied, warm, config, tensors);
  writeModel(models.untied, warm, { ...config, tie_word_embeddings: false }, untied);
  const random = createRandom(7);
  const noise = (size: number) => size * (random.next() - 0.5);
  const moved = untied.map((tensor) => ({
    ...tensor,
    data: tensor.data.map((value) => value + noise(0.02)),
  }));
  writeModel(models.moved, warm, { ...config, tie_word_embeddings: false }, moved);
  writeAdapter(models.adapter, tensors, noise);
  return models;
}

function writeModel(
  directory: string,
  tokenizer: string,
  config: Readonly<Record<string, unknown>>,
  tensors: readonly NamedTensor[],
): void {
  const files = new FileSet(directory);
  files.text('config.json', `${JSON.stringify(config, null, 2)}\n`);
  files.tensors('model.safetensors', [...tensors]);
  files.copy(tokenizer, TOKENIZER_FILES);
  files.commit();
}

const RANK = 4;
const TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];

function writeAdapter(
  directory: string,
  tensors: readonly NamedTensor[],
  noise: (size: number) => number,
): void {
  const adapted = tensors.filter(({ name }) => TARGETS.some((target) => name.endsWith(`${target}.weight`)));
  const matrix = (name: string, shape: readonly number[]) => ({
    name,
    shape,
    data: Float32Array.from({ length: shape[0]! * shape[1]! }, () => noise(0.4)),
  });
  const files = new FileSet(directory);
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: '',
    r: RANK,
    lora_alpha: 2 * RANK,
    lora_dropout: 0,
    bias: 'none',
    target_modules: TARGETS,
  };
  files.text('adapter_config.json', `${JSON.stringify(config, null, 2)}\n`);
  files.tensors(
    'adapter_model.safetensors',
    adapted.flatMap(({ name, shape }) => {
      const of = `base_model.model.${name.replace(/\.weight$/, '')}`;
      return [
        matrix(`${of}.lora_A.weight`, [RANK, shape[1]!]),
        matrix(`${of}.lora_B.weight`, [shape[0]!, RANK]),
      ];
    }),
  );
  files.commit();
}
