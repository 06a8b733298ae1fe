/** What differs between the families of decoders, as data: the computation reads these traits and no family's name. */

export type ModelFamily =
  | 'llama'
  | 'qwen2'
  | 'qwen3'
  | 'qwen2_5_vl'
  | 'mistral'
  | 'phi3'
  | 'gemma2'
  | 'gemma3_text';

export interface FamilyTraits {
  /** Biases on the query, key and value projections. */
  readonly attentionBias: boolean;
  /** RMSNorm over each query and key head before rotation. */
  readonly headNorm: boolean;
  /** q, k and v are one matrix in a checkpoint, and so are gate and up. */
  readonly fusedProjections: boolean;
  /** Results of attention and of the feed-forward layer are normed before they are added. */
  readonly postNorms: boolean;
  /** Norms multiply by this plus their weight. */
  readonly normOffset: number;
  /** Of the gate; GELU is the one by tanh. */
  readonly activation: 'silu' | 'gelu';
  /** Embeddings are multiplied by √hidden. */
  readonly scaledEmbedding: boolean;
}

interface Family {
  /** The class of transformers. */
  readonly architecture: string;
  readonly traits: FamilyTraits;
  /** What `config.json` may leave out; a head's default size is hidden / heads, as many K/V heads as heads. */
  readonly defaults: {
    readonly contextTokens: number;
    readonly tied: boolean;
    readonly headSize?: number;
    readonly kvHeads?: number | 'heads';
    readonly ropeBase?: number;
    /** Scores are divided by its root. */
    readonly queryScalar?: number;
    readonly attentionCap?: number;
    readonly logitCap?: number;
  };
  /** Its sliding windows: which layers have them, and how long they are unless said (null: not at all). */
  readonly local?: {
    readonly window: number | null;
    readonly isLocal: (layer: number, pattern: number | undefined) => boolean;
    /** The base of these layers' rotation, where it is another. */
    readonly ropeBase?: number;
  };
}

const PLAIN: FamilyTraits = {
  attentionBias: false,
  headNorm: false,
  fusedProjections: false,
  postNorms: false,
  normOffset: 0,
  activation: 'silu',
  scaledEmbedding: false,
};
const GEMMA: FamilyTraits = {
  ...PLAIN,
  postNorms: true,
  normOffset: 1,
  activation: 'gelu',
  scaledEmbedding: true,
};

export const FAMILIES: Readonly<Record<ModelFamily, Family>> = {
  llama: {
    architecture: 'LlamaForCausalLM',
    traits: PLAIN,
    defaults: { contextTokens: 2048, tied: false, kvHeads: 'heads' },
  },
  qwen2: {
    architecture: 'Qwen2ForCausalLM',
    traits: { ...PLAIN, attentionBias: true },
    defaults: { contextTokens: 32768, tied: false },
  },
  qwen3: {
    architecture: 'Qwen3ForCausalLM',
    traits: { ...PLAIN, headNorm: true },
    defaults: { contextTokens: 32768, tied: false, headSize: 128 },
  },
  qwen2_5_vl: {
    architecture: 'Qwen2_5_VLForConditionalGeneration',
    traits: { ...PLAIN, attentionBias: true },
    defaults: { contextTokens: 32768, tied: false },
  },
  mistral: {
    architecture: 'MistralForCausalLM',
    traits: PLAIN,
    defaults: { contextTokens: 131072, tied: false, kvHeads: 8 },
    local: { window: 4096, isLocal: () => true },
  },
  phi3: {
    architecture: 'Phi3ForCausalLM',
    traits: { ...PLAIN, fusedProjections: true },
    defaults: { contextTokens: 4096, tied: false, kvHeads: 'heads' },
    local: { window: null, isLocal: () => true },
  },
  gemma2: {
    architecture: 'Gemma2ForCausalLM',
    traits: GEMMA,
    defaults: {
      contextTokens: 8192,
      tied: true,
      headSize: 256,
      kvHeads: 4,
      queryScalar: 256,
      attentionCap: 50,
      logitCap: 30,
    },
    local: { window: 4096, isLocal: (layer) => layer % 2 === 0 },
  },
  gemma3_text: {
    architecture: 'Gemma3ForCausalLM',
    traits: { ...GEMMA, headNorm: true },
    defaults: {
      contextTokens: 131072,
      tied: true,
      headSize: 256,
      kvHeads: 4,
      ropeBase: 1e6,
      queryScalar: 256,
    },
    local: {
      window: 4096,
      isLocal: (layer, pattern = 6) => (layer + 1) % pattern !== 0,
      ropeBase: 10000,
    },
  },
};
