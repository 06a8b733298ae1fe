import type { ImageRef } from '../types.ts';

export function dataUri({ mime }: ImageRef, bytes: Uint8Array): string {
  return `data:${mime};base64,${Buffer.from(bytes).toString('base64')}`;
}
