import { hostname } from 'node:os';
import type { TrackedRun, Tracker } from '../tracker.ts';
import { basic, request } from './http.ts';
import { newRunId, type WandbImage, type WandbRun, wandbImages, wandbJson, wandbRow } from './wandb-run.ts';

export interface WandbServer {
  readonly url: string;
  readonly apiKey: string;
}

/**
 * The protocol of W&B's own client: GraphQL makes the run, and its files then grow line by line (`file_stream`).
 * W&B does not document it. A line is sent with its number in the file, so a line sent twice is there once.
 */
export function wandbOnline(named: WandbRun, { url, apiKey }: WandbServer): Tracker {
  const headers = basic('api', apiKey);
  const ask = async <Answer>(query: string, variables: object, signal: AbortSignal): Promise<Answer> => {
    const answer = (await request(`${url}/graphql`, { headers, body: { query, variables }, signal })) as {
      readonly data?: Answer;
      readonly errors?: readonly { readonly message: string }[];
    };
    if (answer.errors?.[0]) throw new Error(`answered at ${url}/graphql: ${answer.errors[0].message}`);
    if (!answer.data) throw new Error(`answered at ${url}/graphql without data`);
    return answer.data;
  };
  let stream = '';
  let rows = 0;
  let sentThrough = Number.NEGATIVE_INFINITY;
  let summary: ReturnType<typeof wandbRow> = {};
  let place = { entity: '', project: '', run: '' };
  const uploaded = new Set<string>();
  /** The server says where each file goes, which may be a bucket: no header of ours is for it. */
  const upload = async (images: readonly WandbImage[], signal: AbortSignal) => {
    if (images.length === 0) return;
    const paths = images.map(({ path }) => path);
    const { createRunFiles } = await ask<FilesAnswer>(CREATE_FILES, { ...place, files: paths }, signal);
    const uploadHeaders = Object.fromEntries(
      createRunFiles.uploadHeaders.map((header) => {
        const at = header.indexOf(':');
        return [header.slice(0, at), header.slice(at + 1).trim()];
      }),
    );
    for (const { name, uploadUrl } of createRunFiles.files) {
      const body = images.find(({ path }) => path === name)?.bytes;
      if (body) await request(uploadUrl, { method: 'PUT', headers: uploadHeaders, body, signal });
    }
  };
  return {
    name: 'wandb',
    experimental:
      "it speaks the undocumented protocol of W&B's own client and was never tried against their servers; WANDB_MODE=offline and `wandb sync` are the safe way",
    exportHint: `rollcall export RUN --to wandb${url === WANDB_URL ? '' : `=${url}`}`,
    open: async (run, signal) => {
      const key = `wandb ${url} ${named.project}`;
      const id = (await run.memory.read(key))?.['id'] ?? named.id ?? newRunId();
      await run.memory.write(key, { id }); // before it is made, so that a second try finds the first
      const { upsertBucket } = await ask<UpsertAnswer>(UPSERT, upsertVariables(named, id, run), signal);
      const { name: project, entity } = upsertBucket.bucket.project;
      stream = [url, 'files', entity.name, project, id]
        .map((part, at) => (at < 2 ? part : encodeURIComponent(part)))
        .join('/');
      place = { entity: entity.name, project, run: id };
      rows = upsertBucket.bucket.historyLineCount ?? 0;
      if (rows === 0) return;
      const { model } = await ask<ResumeAnswer>(RESUME, { project, entity: entity.name, name: id }, signal);
      sentThrough = lastStep(model?.bucket?.historyTail);
    },
    log: async (lines, signal) => {
      const news: ReturnType<typeof wandbRow>[] = [];
      for (const line of lines.filter(({ step }) => step > sentThrough)) {
        const images = await wandbImages(line);
        await upload(
          images.filter(({ path }) => !uploaded.has(path)),
          signal,
        );
        for (const { path } of images) uploaded.add(path);
        news.push(wandbRow(line, images, named.text ?? false));
      }
      if (news.length === 0) return;
      const next = Object.assign({}, summary, ...news) as typeof summary;
      const files = {
        'wandb-history.jsonl': { offset: rows, content: news.map(wandbJson) },
        'wandb-summary.json': { offset: 0, content: [wandbJson(next)] },
      };
      await request(`${stream}/file_stream`, { headers, body: { files }, signal });
      summary = next;
      rows += news.length;
      sentThrough = Math.max(sentThrough, ...lines.map(({ step }) => step));
    },
    close: async (end, signal) => {
      const body = { complete: true, exitcode: end === 'finished' ? 0 : 1 };
      await request(`${stream}/file_stream`, { headers, body, signal });
    },
  };
}

export const WANDB_URL = 'https://api.wandb.ai';

interface UpsertAnswer {
  readonly upsertBucket: {
    readonly bucket: {
      readonly project: { readonly name: string; readonly entity: { readonly name: string } };
      readonly historyLineCount?: number | null;
    };
  };
}

interface ResumeAnswer {
  readonly model?: { readonly bucket?: { readonly historyTail?: string | null } | null } | null;
}

const UPSERT = `mutation UpsertBucket($name: String, $project: String, $entity: String, $groupName: String, $displayName: String, $notes: String, $commit: String, $config: JSONString, $host: String, $tags: [String!]) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, groupName: $groupName, displayName: $displayName, notes: $notes, commit: $commit, config: $config, host: $host, tags: $tags}) {
    bucket { name historyLineCount project { name entity { name } } }
    inserted
  }
}`;

interface FilesAnswer {
  readonly createRunFiles: {
    readonly uploadHeaders: readonly string[];
    readonly files: readonly { readonly name: string; readonly uploadUrl: string }[];
  };
}

const CREATE_FILES = `mutation CreateRunFiles($entity: String!, $project: String!, $run: String!, $files: [String!]!) {
  createRunFiles(input: {entityName: $entity, projectName: $project, runName: $run, files: $files}) {
    runID uploadHeaders files { name uploadUrl }
  }
}`;

const RESUME = `query RunResumeStatus($project: String, $entity: String, $name: String!) {
  model(name: $project, entityName: $entity) { bucket(name: $name, missingOk: true) { historyLineCount historyTail } }
}`;

function upsertVariables(
  { project, experiment, entity, group, notes, tags }: WandbRun,
  id: string,
  run: TrackedRun,
) {
  const config = Object.fromEntries(Object.entries(run.options).map(([key, value]) => [key, { value }]));
  const commit = run.options['gitCommit'];
  return {
    name: id,
    project,
    entity: entity ?? null,
    displayName: experiment,
    groupName: group ?? null,
    notes: notes ?? null,
    tags: tags ?? [],
    commit: typeof commit === 'string' ? commit : null,
    host: hostname(),
    config: JSON.stringify(config),
  };
}

/** A JSON list of the last rows, each a JSON text. */
function lastStep(tail: string | null | undefined): number {
  const rows = JSON.parse(tail ?? '[]') as string[];
  const last = rows.at(-1);
  return last === undefined
    ? Number.NEGATIVE_INFINITY
    : ((JSON.parse(last) as { _step?: number })._step ?? -1);
}
