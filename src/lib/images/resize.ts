/**
 * Resizing as Pillow and torchvision do it with antialiasing: a filter as wide as a new pixel is in old ones, first along
 * rows, then along columns, each rounded to bytes.
 */
import type { Pixels } from './pixels.ts';

export type Filter = 'bilinear' | 'bicubic' | 'lanczos';

const FILTERS: Readonly<Record<Filter, { readonly support: number; at(x: number): number }>> = {
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, at: (x) => cubic(Math.abs(x)) },
  lanczos: { support: 3, at: (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

/** Catmull and Rom's, a = −1/2. */
function cubic(x: number): number {
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

const sinc = (x: number) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

/** The picture in another size. */
export function resize(image: Pixels, width: number, height: number, filter: Filter): Pixels {
  if (width === image.width && height === image.height) return image;
  const { width: from, rgb } = image;
  const wide = width === from ? rgb : along(rgb, image.height, from, width, filter, 3 * from, 3, 3 * width);
  const tall =
    height === image.height ? wide : along(wide, width, image.height, height, filter, 3, 3 * width, 3);
  return { width, height, rgb: tall };
}

/** Resamples `lines` lines of `from` pixels to `to`; `line` and `step` are bytes from line to line and pixel to pixel. */
function along(
  rgb: Uint8Array,
  lines: number,
  from: number,
  to: number,
  filter: Filter,
  line: number,
  step: number,
  outLine: number,
): Uint8Array {
  const out = new Uint8ClampedArray(3 * lines * to);
  for (let index = 0; index < to; index++) {
    const { first, weights } = weightsOf(index, from, to, filter);
    for (let at = 0; at < lines; at++) {
      for (let part = 0; part < 3; part++) {
        let sum = 0;
        let source = at * line + first * step + part;
        for (const weight of weights) {
          sum += weight * rgb[source]!;
          source += step;
        }
        out[at * outLine + index * step + part] = Math.round(sum);
      }
    }
  }
  return new Uint8Array(out.buffer);
}

/** Which old pixels make a new one, and by how much. */
function weightsOf(index: number, from: number, to: number, filter: Filter) {
  const { support, at } = FILTERS[filter];
  const scale = from / to;
  const stretch = Math.max(1, scale);
  const centre = (index + 0.5) * scale;
  const first = Math.max(0, Math.trunc(centre - support * stretch + 0.5));
  const end = Math.min(from, Math.trunc(centre + support * stretch + 0.5));
  const raw = Array.from({ length: end - first }, (_, i) => at((first + i - centre + 0.5) / stretch));
  const total = raw.reduce((sum, weight) => sum + weight, 0);
  return { first, weights: raw.map((weight) => weight / total) };
}
