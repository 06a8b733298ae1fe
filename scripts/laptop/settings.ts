import { readFile, writeFile } from 'node:fs/promises';

/** Flags on which results depend. */
export type Settings = Readonly<Record<string, string | number>>;

/** The first command writes its settings to `file`. A later one with others would mix its results with those of the first. */
export async function claimSettings(file: string, settings: Settings): Promise<void> {
  let earlier: Settings;
  try {
    earlier = JSON.parse(await readFile(file, 'utf8')) as Settings;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    await writeFile(file, `${JSON.stringify(settings, null, 2)}\n`);
    return;
  }
  for (const [name, value] of Object.entries(settings)) {
    if (earlier[name] === value) continue;
    throw new Error(
      `--${name} is ${JSON.stringify(value)}, but the results beside ${file} are of ` +
        `${JSON.stringify(earlier[name])}: give that, or another --runs`,
    );
  }
}
