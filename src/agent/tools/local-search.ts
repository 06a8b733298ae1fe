/** Search over documents on this machine: BM25 by MiniSearch, in Search-R1's form of question and answer. */
import { readFileSync } from 'node:fs';
import MiniSearch from 'minisearch';
import { ConfigError } from '../../errors.ts';
import type { ToolSchema } from '../../types.ts';
import type { ResultLimits } from '../class-tool.ts';
import { type Tool, tool } from '../tool.ts';
import { passageText, SEARCH_SCHEMA } from './http-tools.ts';

/** A document's first line is its title, as in Search-R1's corpora. */
export interface SearchDocument {
  readonly id: string | number;
  readonly contents: string;
}

/** The documents that are searched, and how many are returned. */
export interface LocalSearchOptions {
  readonly documents: readonly SearchDocument[];
  /** Passages for each query. */
  readonly topK?: number;
  readonly schema?: ToolSchema;
  readonly limits?: ResultLimits;
}

/** A tool that searches documents in memory. */
export function localSearchTool({
  documents,
  topK = 3,
  schema = SEARCH_SCHEMA,
  limits = {},
}: LocalSearchOptions): Tool {
  const contents = new Map(documents.map((document) => [document.id, document.contents]));
  const index = new MiniSearch<SearchDocument>({ fields: ['contents'] });
  index.addAll(documents);
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    coerceInput: true,
    ...limits,
    pure: true,
    run: (input) => {
      const { query_list: queries } = input as { query_list?: unknown };
      if (!Array.isArray(queries) || queries.length === 0) {
        throw new Error("'query_list' is missing, empty, or not a list");
      }
      const found = queries.map((query) =>
        index
          .search(String(query))
          .slice(0, topK)
          .map(({ id }) => ({ document: { contents: contents.get(id as string | number) ?? '' } })),
      );
      const total = found.reduce((sum, passages) => sum + passages.length, 0);
      const text = found.map((passages) => passages.map(passageText).join('').trim()).join('\n---\n');
      return {
        content: JSON.stringify({ result: total > 0 ? text : 'No search results found.' }),
        metrics: { query_count: queries.length, total_results: total },
      };
    },
  });
}

/** JSONL, a document a line: `{"id": …, "contents": "title\\ntext"}`, or `title` and `text` apart. */
export function readDocuments(path: string): SearchDocument[] {
  let lines: string[];
  try {
    lines = readFileSync(path, 'utf8').split('\n');
  } catch (cause) {
    throw new ConfigError(`the search tool cannot read its documents ${path}: ${(cause as Error).message}`, {
      cause,
    });
  }
  const documents = lines.flatMap((line, number) =>
    line.trim() === '' ? [] : [readDocument(line, number, path)],
  );
  if (documents.length === 0) throw new ConfigError(`the search tool's documents ${path} are empty`);
  return documents;
}

function readDocument(line: string, number: number, path: string): SearchDocument {
  const where = `${path}, line ${number + 1}`;
  let read: { id?: unknown; contents?: unknown; title?: unknown; text?: unknown };
  try {
    read = JSON.parse(line);
  } catch (cause) {
    throw new ConfigError(`${where} is not JSON: ${line.slice(0, 80)}`, { cause });
  }
  const contents =
    read.contents ?? (read.text === undefined ? undefined : `${read.title ?? ''}\n${read.text}`);
  if (typeof contents !== 'string')
    throw new ConfigError(`${where} has neither contents nor text: ${line.slice(0, 80)}`);
  return { id: typeof read.id === 'string' ? read.id : number, contents };
}
