import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';

/** Links of a built site to headings that do not exist. VitePress checks pages, not headings. */
export function deadAnchors(folder: string): string[] {
  const pages = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.html'),
  );
  const texts = new Map(pages.map((file) => [`/${file}`, readFileSync(join(folder, file), 'utf8')]));
  const ids = new Map(
    [...texts].map(([page, text]) => [
      page,
      new Set([...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!)),
    ]),
  );
  return [...texts].flatMap(([page, text]) =>
    [...text.matchAll(/ href="([^":]*)#([^"]+)"/g)]
      .map(([, path, id]): [string, string] => [path ? posix.resolve(posix.dirname(page), path) : page, id!])
      .map(([target, id]): [string, string] => [/\.\w+$/.test(target) ? target : `${target}.html`, id])
      .filter(([target, id]) => !ids.get(target)?.has(decodeURIComponent(id)))
      .map(([target, id]) => `${page}: ${target}#${id}`),
  );
}
