import type { InferenceServer } from '../inference/server.ts';
import type { ImageRef } from '../types.ts';
import type { GatewayOptions } from './gateway.ts';

/** Where tokens come from: opens the servers of a run, which stand behind one gateway. */
export interface ServerFactory {
  readonly name: string;
  /** It decodes images itself, PNG and JPEG: what it could not show is refused when it is stored. */
  readonly decodesImages?: boolean;
  /** How requests are spread over the servers. */
  readonly gateway?: GatewayOptions;
  /** The servers may not hold the model's weights, so these are sent before the first step. */
  readonly sendsFirst?: boolean;
  /** Servers free their GPU's memory while the trainer works, which then may use it. */
  readonly sleepWhileTraining?: boolean;
  /** Servers sample with the very weights that are trained, so nothing may be sampled while the trainer works. */
  readonly sharesTrainedWeights?: boolean;
  /** How weights reach servers that take them from disk. */
  readonly disk?: DiskOptions;
  open(model: string, options?: OpenServersOptions): Promise<readonly InferenceServer[]>;
}

/** How weights reach servers through a folder. */
export interface DiskOptions {
  /** A folder that this process and all servers see under the same path; default a temporary one of this machine. */
  readonly directory?: string;
  /** `adapter`: only the low-rank matrices; the trainer must train an adapter. */
  readonly send?: 'weights' | 'adapter';
}

/** What a run tells servers when it opens them. */
export interface OpenServersOptions {
  /** The bytes of an image that a request names. */
  readonly readImage?: (image: ImageRef) => Promise<Uint8Array>;
  /** Where servers that are started leave what they print; default a temporary folder. */
  readonly logDirectory?: string;
  /** Rank of the adapter that the trainer trains, where only the adapter is sent. */
  readonly loraRank?: number | undefined;
  /** The trainer's arithmetic, where it says: servers in this process hold weights as it does. */
  readonly arithmetic?: string | undefined;
  /** Opening waits for servers to be ready until it aborts. */
  readonly signal?: AbortSignal | undefined;
}
