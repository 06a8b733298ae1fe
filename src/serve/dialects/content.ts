import type { Content, ContentPart } from '../../types.ts';
import { BadRequest } from '../bad-request.ts';
import type { ReadContext } from './dialect.ts';
import { Fields } from './fields.ts';

/** Text, or a list of parts with text and images, of any dialect. One text is plain text. */
export async function readContent(value: unknown, path: string, context: ReadContext): Promise<Content> {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) throw new BadRequest(`${path} is ${typeof value}; use text or a list of parts`);
  const parts: ContentPart[] = [];
  for (const [at, given] of value.entries()) {
    const part = new Fields(given, `${path}.${at}.`);
    const type = part.text('type');
    const uri = imageUri(part, type);
    if (uri !== undefined) parts.push({ type: 'image', image: await context.image(bytesOf(uri, path)) });
    else parts.push({ type: 'text', text: textOf(part, type) });
  }
  const texts = parts.flatMap((part) => (part.type === 'text' ? part.text : []));
  return texts.length === parts.length ? texts.join('') : parts;
}

const TEXTS = ['text', 'input_text', 'output_text'];

function textOf(part: Fields, type: string | undefined): string {
  if (type !== undefined && TEXTS.includes(type)) return part.text('text') ?? '';
  if (type === 'refusal') return part.text('refusal') ?? '';
  return part.refuse('type', 'use text or an image');
}

/** OpenAI: `{ image_url: { url } }` or `{ image_url: url }`; Anthropic: `{ source: { type: 'base64', media_type, data } }`. */
function imageUri(part: Fields, type: string | undefined): string | undefined {
  if (type === 'image_url') return part.object('image_url')?.text('url') ?? '';
  if (type === 'input_image') return part.text('image_url') ?? '';
  if (type !== 'image') return undefined;
  const source = part.need('source', part.object('source'));
  if (source.text('type') !== 'base64') source.refuse('type', 'use "base64"');
  return `data:${source.text('media_type') ?? ''};base64,${source.text('data') ?? ''}`;
}

function bytesOf(uri: string, path: string): Uint8Array {
  const data = /^data:[^,]*;base64,(.*)$/s.exec(uri)?.[1];
  if (data === undefined) {
    throw new BadRequest(`${path} shows the image ${uri.slice(0, 40)}; use a data: URI in base64`);
  }
  return Buffer.from(data, 'base64');
}
