import { readFile } from 'node:fs/promises';
import { isMap, isPair, isScalar, LineCounter, parseDocument } from 'yaml';
import { ConfigError } from '../errors.ts';

/** A value that was given, and where. */
export interface Leaf {
  readonly key: string;
  readonly value: unknown;
  /** `run.yaml:7:5`, or the override itself. */
  readonly where: string;
}

/** The values of a YAML file by dotted name. `isLeaf` says which mappings are values rather than groups. */
export async function readYamlLeaves(path: string, isLeaf: (key: string) => boolean): Promise<Leaf[]> {
  const source = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EISDIR')
      throw new ConfigError(`${path} is a folder; give a run file (.ts) or a YAML file`, { cause });
    throw new ConfigError(`${path}: cannot be read: ${cause.code ?? cause.message}`, { cause });
  });
  return yamlLeaves(source, path, isLeaf);
}

export function yamlLeaves(source: string, path: string, isLeaf: (key: string) => boolean): Leaf[] {
  const lines = new LineCounter();
  const document = parseDocument(source, { lineCounter: lines, prettyErrors: false, logLevel: 'silent' });
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `${path}:${line}:${col}`;
  };
  const [error] = document.errors;
  if (error) throw new ConfigError(`${at(error.pos[0])}: not YAML: ${error.message}`);
  if (document.contents === null) return [];
  if (!isMap(document.contents)) throw new ConfigError(`${path}:1:1: holds no mapping of options`);
  const leaves: Leaf[] = [];
  const walk = (node: unknown, prefix: string) => {
    if (!isMap(node)) return;
    for (const pair of node.items) {
      if (!isPair(pair) || !isScalar(pair.key)) continue;
      const key = prefix + String(pair.key.value);
      if (isMap(pair.value) && pair.value.items.length > 0 && !isLeaf(key)) walk(pair.value, `${key}.`);
      else {
        const value = pair.value as { toJS?(document: unknown): unknown } | null;
        const where = at(pair.key.range?.[0] ?? 0);
        try {
          leaves.push({ key, value: value?.toJS ? value.toJS(document) : null, where });
        } catch (cause) {
          // An alias that has no anchor, or aliases that unfold without end.
          throw new ConfigError(`${where}: ${key} cannot be read: ${(cause as Error).message}`, { cause });
        }
      }
    }
  };
  walk(document.contents, '');
  return leaves;
}
