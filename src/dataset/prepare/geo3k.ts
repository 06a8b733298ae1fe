import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { DatasetError } from '../../errors.ts';
import type { DataRow } from '../source.ts';
import { type Diagram, drawDiagram } from './draw-geometry.ts';
import { findFiles, type Origin } from './find-files.ts';
import { isHiddenRelation, sayProblem } from './geometry-text.ts';
import { type Preparation, type PreparedRow, prepareSplit, textOf } from './preparation.ts';
import { unzip } from './unzip.ts';

export const GEO3K_STYLES = ['plain', 'tool', 'agent-loop'] as const;
export type Geo3kStyle = (typeof GEO3K_STYLES)[number];

interface Problem {
  readonly id: number;
  readonly text: string;
  readonly answer: string;
  readonly image: Uint8Array;
}

/**
 * Geometry3K from what is there: the hub's parquet, the original zips, unpacked problem folders, or the annotated
 * points, from which diagrams are drawn. The annotations hold answers of test problems only.
 */
export async function prepareGeo3k(origin: Origin, style: Geo3kStyle): Promise<Preparation> {
  const has = async (pattern: RegExp) => (await findFiles(origin, pattern)).length > 0;
  if (await has(/(^|\/)(train|test)[^/]*\.parquet$/)) {
    const split = (name: string) =>
      prepareSplit(origin, name, (row, index) => parquetRow(row, index, name, style));
    return { train: await split('train'), test: await split('test') };
  }
  const zips = await findFiles(origin, /(^|\/)(train|val|test)\.zip$/);
  if (zips.length > 0) {
    return Object.fromEntries(
      zips.map((zip) => {
        const split = basename(zip, '.zip');
        return [split, rowsOf(zippedProblems(zip), split, style)];
      }),
    );
  }
  const [annotations] = await findFiles(origin, /(^|\/)diagram_logic_forms_annot\.json$/);
  if (annotations) return { test: rowsOf(drawnProblems(dirname(annotations)), 'test', style) };
  const folders = await findFiles(origin, /(^|\/)\d+\/data\.json$/);
  if (folders.length > 0) return { train: rowsOf(unpackedProblems(folders), 'train', style) };
  throw new DatasetError(
    `${origin.path ?? origin.hub}: holds no Geometry3K: neither parquet, nor train.zip, nor diagram_logic_forms_annot.json, nor folders with data.json`,
  );
}

function parquetRow(row: DataRow, index: number, split: string, style: Geo3kStyle): PreparedRow {
  const row3k = geoRow(textOf(row, 'problem'), textOf(row, 'answer'), index, split, style);
  return { ...row3k, images: row.images };
}

async function* rowsOf(
  problems: AsyncIterable<Problem>,
  split: string,
  style: Geo3kStyle,
): AsyncGenerator<PreparedRow> {
  let index = 0;
  for await (const { id, text, answer, image } of problems) {
    const row = geoRow(`<image>${text}`, answer, index++, split, style);
    yield {
      ...row,
      extra_info: { ...row.extra_info, problem_id: id },
      images: [{ bytes: image, path: `${id}.png` }],
    };
  }
}

function geoRow(
  problem: string,
  answer: string,
  index: number,
  split: string,
  style: Geo3kStyle,
): PreparedRow {
  const withTool = style !== 'plain';
  const tool = withTool
    ? ' Call the `calc_geo3k_reward` tool with your answer at least once, and correct yourself if it is wrong.'
    : '';
  return {
    data_source: 'hiyouga/geometry3k',
    ...(style === 'agent-loop' && { agent_name: 'tool_agent' }),
    prompt: [
      {
        role: 'user',
        content: `${problem} Think step by step between <think> and </think>.${tool} Put the final answer in \\boxed{}.`,
      },
    ],
    ability: 'math',
    reward_model: { style: 'rule', ground_truth: answer },
    extra_info: {
      split,
      index,
      answer,
      question: problem,
      ...(withTool && {
        need_tools_kwargs: true,
        tools_kwargs: { calc_geo3k_reward: { create_kwargs: { ground_truth: answer } } },
      }),
    },
  };
}

interface ProblemFile {
  readonly id: number;
  readonly compact_text: string;
  readonly compact_choices: readonly string[];
  readonly answer: string;
}

function readProblem(json: string, image: Uint8Array, where: string): Problem {
  const { id, compact_text, compact_choices, answer } = JSON.parse(json) as ProblemFile;
  const choice = compact_choices['ABCD'.indexOf(answer)];
  if (choice === undefined) throw new DatasetError(`${where}: the answer ${answer} is none of its choices`);
  return { id, text: compact_text, answer: choice, image };
}

async function* unpackedProblems(files: readonly string[]): AsyncGenerator<Problem> {
  for (const file of files) {
    const image = await readFile(join(dirname(file), 'img_diagram.png'));
    yield readProblem(await readFile(file, 'utf8'), image, file);
  }
}

async function* zippedProblems(zip: string): AsyncGenerator<Problem> {
  const halves = new Map<string, { json?: string; image?: Uint8Array }>();
  for await (const { name, read } of unzip(zip)) {
    const match = /(?:^|\/)(\d+)\/(data\.json|img_diagram\.png)$/.exec(name);
    if (!match) continue;
    const half = halves.get(match[1]!) ?? {};
    if (match[2] === 'data.json') half.json = (await read()).toString('utf8');
    else half.image = await read();
    halves.set(match[1]!, half);
    if (half.json !== undefined && half.image !== undefined) {
      halves.delete(match[1]!);
      yield readProblem(half.json, half.image, `${zip}: ${name}`);
    }
  }
}

async function* drawnProblems(folder: string): AsyncGenerator<Problem> {
  const read = async <T>(file: string) =>
    JSON.parse(await readFile(join(folder, file), 'utf8')) as Record<string, T>;
  const diagrams = await read<Diagram>('diagram_logic_forms_annot.json');
  const texts = await read<{ text_logic_forms: string[] }>('text_logic_forms_annot.json');
  const answers = await read<number>('test_numeric_answers_from_solver_logs.json');
  for (const [id, answer] of Object.entries(answers)) {
    const diagram = diagrams[id];
    const text = texts[id];
    if (!diagram || !text) continue;
    yield {
      id: Number(id),
      text: sayProblem([...diagram.diagram_logic_forms.filter(isHiddenRelation), ...text.text_logic_forms]),
      answer: String(Number(answer.toFixed(4))),
      image: await drawDiagram(diagram),
    };
  }
}
