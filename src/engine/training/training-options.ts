import type { HeldAs } from '../arithmetic.ts';
import type { LoraOptions } from './lora.ts';

export interface TrainingOptions {
  /** A model folder in the Hugging Face layout. */
  readonly model: string;
  /** false: only scored (a reference model); no gradient, no optimizer. Default true. */
  readonly trainable?: boolean;
  /** Trains low-rank adapters and freezes the model. */
  readonly lora?: LoraOptions;
  /** How weights are held that are not trained; default `float32`. */
  readonly weights?: HeldAs;
  /** Adds a value head; read from `trainer/value_head.safetensors` in the model's folder, else it begins at zero. */
  readonly valueHead?: boolean;
  /** Computes each layer's activations again in the backward instead of keeping them. */
  readonly recompute?: boolean;
  /**
   * What weight decay acts on: `all` trained parameters, as `torch.optim.AdamW` does by default and verl with it, or
   * `matrices`: everything but norms and biases. Default `all`.
   */
  readonly decay?: 'all' | 'matrices';
}
