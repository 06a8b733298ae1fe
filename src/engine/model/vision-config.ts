/** The eyes of a Qwen2.5-VL: an encoder of patches, and where its tokens stand. */
import { ConfigError } from '../../errors.ts';

export interface VisionConfig {
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly intermediate: number;
  /** Side of a patch in pixels, side of a token in patches, frames of a patch. */
  readonly patch: number;
  readonly merge: number;
  readonly frames: number;
  /** Side of a window in pixels: outside `fullLayers`, patches see their window only. */
  readonly window: number;
  readonly fullLayers: readonly number[];
  /** The placeholder's id. */
  readonly imageId: number;
  /** How many of a head's pairs turn by time, by row and by column. */
  readonly sections: readonly number[];
  /** Ids that stand around images in a prompt, as the config names them. */
  readonly marks: Readonly<Record<string, number>>;
}

type Fields = Readonly<Record<string, unknown>>;
const MARKS = ['vision_start_token_id', 'vision_end_token_id', 'vision_token_id', 'video_token_id'];

/** `whole` is the file, `text` the decoder's part of it. */
export function parseVision(
  whole: Fields,
  text: Fields,
  decoder: { readonly hidden: number; readonly headSize: number },
  file: string,
): VisionConfig {
  const { vision_config: given } = whole;
  if (typeof given !== 'object' || given === null) throw new ConfigError(`${file}: vision_config is missing`);
  const vision = given as Fields;
  const count = (fields: Fields, name: string, fallback?: number) => {
    const value = fields[name] ?? fallback;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
    throw new ConfigError(
      `${file}: vision_config.${name} is ${JSON.stringify(value)}; a positive integer is needed`,
    );
  };
  const only = (name: string, right: unknown, fallback: unknown) => {
    const value = vision[name] ?? fallback;
    if (value !== right) {
      throw new ConfigError(
        `${file}: vision_config.${name} ${JSON.stringify(value)} is not implemented; ${JSON.stringify(right)} is`,
      );
    }
  };
  only('hidden_act', 'silu', 'silu');
  only('in_channels', 3, vision.in_chans ?? 3);
  only('out_hidden_size', decoder.hidden, decoder.hidden);
  const hidden = count(vision, 'hidden_size');
  const heads = count(vision, 'num_heads');
  if (hidden % heads !== 0 || (hidden / heads) % 4 !== 0) {
    throw new ConfigError(
      `${file}: vision_config.hidden_size ${hidden} over ${heads} heads: a head needs a multiple of 4`,
    );
  }
  const imageId = whole.image_token_id;
  if (typeof imageId !== 'number') throw new ConfigError(`${file}: image_token_id is missing`);
  const full = vision.fullatt_block_indexes ?? [];
  return {
    hidden,
    layers: count(vision, 'depth'),
    heads,
    intermediate: count(vision, 'intermediate_size'),
    patch: count(vision, 'patch_size', 14),
    merge: count(vision, 'spatial_merge_size', 2),
    frames: count(vision, 'temporal_patch_size', 2),
    window: count(vision, 'window_size', 112),
    fullLayers: Array.isArray(full) ? (full as number[]) : [],
    imageId,
    sections: readSections(text, decoder.headSize, file),
    marks: Object.fromEntries(
      MARKS.flatMap((name) => (typeof whole[name] === 'number' ? [[name, whole[name]]] : [])),
    ),
  };
}

function readSections(text: Fields, headSize: number, file: string): number[] {
  const rope = (text.rope_parameters ?? text.rope_scaling ?? {}) as Fields;
  const sections: unknown = rope.mrope_section;
  const right =
    Array.isArray(sections) &&
    sections.length === 3 &&
    sections.reduce((sum: number, size: unknown) => sum + Number(size), 0) === headSize / 2;
  if (right) return sections as number[];
  throw new ConfigError(
    `${file}: mrope_section is ${JSON.stringify(sections)}; three sizes that sum to ${headSize / 2} are needed`,
  );
}

/** The fields of `config.json` that `parseVision` reads back. */
export function visionJson(vision: VisionConfig, decoderHidden: number): Record<string, unknown> {
  return {
    image_token_id: vision.imageId,
    ...vision.marks,
    vision_config: {
      model_type: 'qwen2_5_vl',
      hidden_act: 'silu',
      in_channels: 3,
      depth: vision.layers,
      hidden_size: vision.hidden,
      num_heads: vision.heads,
      intermediate_size: vision.intermediate,
      out_hidden_size: decoderHidden,
      patch_size: vision.patch,
      spatial_merge_size: vision.merge,
      temporal_patch_size: vision.frames,
      window_size: vision.window,
      fullatt_block_indexes: vision.fullLayers,
    },
  };
}
