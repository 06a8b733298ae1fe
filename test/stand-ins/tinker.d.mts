import type { IncomingMessage } from 'node:http';

export interface TinkerStandIn {
  readonly url: string;
  readonly port: number;
  readonly calls: readonly { readonly call: string; readonly body: Record<string, unknown> }[];
  kill(): Promise<void>;
}

export function startTinker(options?: {
  readonly vocabulary?: number;
  readonly reduction?: 'sequence-mean' | 'token-sum';
  readonly disk?: Map<string, unknown>;
  readonly port?: number;
  readonly apiKey?: string;
  /** Gives `[status, body]` to answer with instead, or nothing. */
  readonly before?: (call: string, request: IncomingMessage) => unknown;
}): Promise<TinkerStandIn>;
