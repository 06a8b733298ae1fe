/** From an image file's bytes to pixels. */
import { decodeJpeg } from './jpeg.ts';
import type { Pixels } from './pixels.ts';
import { decodePng, plainPng } from './png.ts';

/** More would take gigabytes once it is patches. */
const MOST_PIXELS = 64 * 2 ** 20;

/** Throws an Error whose message says what is wrong; the caller names the image. */
export function decodeImage(bytes: Uint8Array, mime: string): Pixels {
  if (mime === 'image/png') {
    checkPngSize(bytes);
    return decodePng(bytes);
  }
  if (mime === 'image/jpeg') return decodeJpeg(bytes, ({ width, height }) => checkSize(width, height));
  throw new Error(`${mime} cannot be decoded here; PNG and JPEG can`);
}

/** Bytes that trainers and servers decode to the same pixels; throws as decodeImage does. */
export function readAlike(bytes: Uint8Array, mime: string): Uint8Array {
  if (mime === 'image/png') {
    checkPngSize(bytes);
    return plainPng(bytes) ?? bytes;
  }
  decodeImage(bytes, mime);
  return bytes;
}

function checkPngSize(bytes: Uint8Array): void {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.length >= 24) checkSize(view.readUInt32BE(16), view.readUInt32BE(20));
}

function checkSize(width: number, height: number): void {
  if (width === 0 || height === 0) throw new Error(`it is ${width} × ${height} pixels; it needs some`);
  if (width * height > MOST_PIXELS) {
    throw new Error(`it is ${width} × ${height} pixels; ${MOST_PIXELS} are the most that is decoded`);
  }
}
