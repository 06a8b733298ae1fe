/**
 * The Markdown files of the repository as pages of the site. They stay readable where they are; here their links are
 * turned into the site's: to a page where the target is one, otherwise to a page that shows the file.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, extname, join, posix } from 'node:path';
import { CHAPTERS } from './outline.ts';

export const PAGES = 'site/pages';
const PICTURE = /\.(svg|png)$/;

const recipes = readdirSync('recipes').filter((name) => existsSync(`recipes/${name}/README.md`));

/** The file of every page, with its place on the site. */
export const PLACES: ReadonlyMap<string, string> = new Map([
  ['README.md', 'overview.md'],
  ['recipes/README.md', 'recipes/index.md'],
  ...recipes.map((name): [string, string] => [`recipes/${name}/README.md`, `recipes/${name}.md`]),
  ...CHAPTERS.flatMap(({ pages }) =>
    pages.map(([file]): [string, string] => [file, basename(file).toLowerCase()]),
  ),
]);

/** Links outside code, with everything up to the target in the first group. */
const LINK = /(!?\[(?:[^\]`]|`[^`]*`)*\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)/g;

/** Changes the text between fences and leaves code as it is. */
const outsideCode = (text: string, change: (prose: string) => string) =>
  text
    .split(/^(```[\s\S]*?^```$)/m)
    .map((part, at) => (at % 2 ? part : change(part)))
    .join('');

/** A page's text with the site's links; `shown` gets the files that need a page of their own. */
export function siteText(file: string, text: string, shown: Set<string>): string {
  const linked = (_: string, before: string, target: string, anchor = '') => {
    const path = posix.join(posix.dirname(file), target).replace(/\/$/, '');
    const place = PLACES.get(path) ?? PLACES.get(posix.join(path, 'README.md'));
    if (place !== undefined) return `${before}/${place}${anchor})`;
    if (!existsSync(path)) throw new Error(`${file} links to ${target}, which does not exist`);
    if (before.startsWith('!') || PICTURE.test(path)) return `${before}/files/${path})`;
    shown.add(path);
    return `${before}/source/${path}.md${anchor})`;
  };
  return outsideCode(text, (prose) => prose.replace(/<!--[\s\S]*?-->\n?/g, '').replace(LINK, linked));
}

const fence = (file: string) => {
  const language = { '.jsonl': 'json', '.yml': 'yaml' }[extname(file)] ?? extname(file).slice(1);
  return `\`\`\`\`${language}\n${readFileSync(file, 'utf8').trimEnd()}\n\`\`\`\`\n`;
};

/** A page that shows a file, or lists a folder, whose files are then shown too. */
function sourcePage(path: string, shown: Set<string>): string {
  const head = `---\noutline: false\nsearch: false\n---\n\n# ${path}\n\n`;
  if (!statSync(path).isDirectory()) return `${head}${fence(path)}`;
  const files = readdirSync(path).filter((name) => !statSync(join(path, name)).isDirectory());
  for (const name of files) shown.add(`${path}/${name}`);
  return `${head}${files.map((name) => `- [${name}](/source/${path}/${name}.md)`).join('\n')}\n`;
}

/** A recipe ends with the files it consists of. */
function recipeFiles(file: string): string {
  const recipe = /^recipes\/[^/]+/.exec(file)?.[0];
  if (recipe === undefined || !existsSync(`${recipe}/run.yaml`)) return '';
  return `\n## run.yaml\n\n${fence(`${recipe}/run.yaml`)}`;
}

async function write(place: string, text: string): Promise<void> {
  const path = join(PAGES, place);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

/** Writes every page. */
export async function makePages(): Promise<void> {
  const shown = new Set<string>();
  for (const [file, place] of PLACES) {
    await write(place, siteText(file, readFileSync(file, 'utf8'), shown) + recipeFiles(file));
  }
  for (const path of shown) await write(`source/${path}.md`, sourcePage(path, shown)); // a folder adds its files
  await cp('site/home.md', `${PAGES}/index.md`);
  await cp('docs/images', `${PAGES}/public/files/docs/images`, { recursive: true });
  for (const name of recipes) {
    for (const picture of readdirSync(`recipes/${name}`).filter((one) => PICTURE.test(one))) {
      await cp(`recipes/${name}/${picture}`, `${PAGES}/public/files/recipes/${name}/${picture}`);
    }
  }
}

export const clearPages = () => rm(PAGES, { recursive: true, force: true });
