import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { HubApiError, modelInfo } from '@huggingface/hub';
import { ConfigError } from '../errors.ts';
import { fillSnapshot } from './hub-cache.ts';

export interface ModelFolderOptions {
  /** Also the weights; otherwise the small files: tokenizer, template, configuration. */
  readonly weights?: boolean;
  /** Branch, tag or commit of a hub model. */
  readonly revision?: string;
  /** HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE, as Python's library reads them. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  /** For each request to the hub. */
  readonly timeoutMs?: number;
}

/**
 * The folder of a model: a local one, or one of the hub, through the cache that Python's libraries use too.
 * What is on disk as a folder is local; else a name with one slash is a hub name.
 */
export async function findModelFolder(nameOrPath: string, options: ModelFolderOptions = {}): Promise<string> {
  const local = resolve(nameOrPath.replace(/^~(?=\/)/, homedir()));
  const found = await stat(local).catch(() => undefined);
  if (found?.isDirectory()) return local;
  if (found)
    throw new ConfigError(`the model ${nameOrPath} is a file; give the folder that holds its config.json`);
  if (!/^[\w-][\w.-]*\/[\w-][\w.-]*$/.test(nameOrPath)) {
    throw new ConfigError(
      `no model at ${nameOrPath}: there is no folder ${local}, and only a name with one slash, such as ` +
        'Qwen/Qwen3-0.6B, is a name on the Hugging Face hub',
    );
  }
  return fromHub(nameOrPath, local, options);
}

interface Hub {
  readonly url: string;
  readonly cacheDir: string;
  readonly isOffline: boolean;
  readonly token: string | undefined;
}

async function readHub(environment: NonNullable<ModelFolderOptions['environment']>): Promise<Hub> {
  const { HF_HOME, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, XDG_CACHE_HOME, HF_ENDPOINT, HF_TOKEN } = environment;
  const home = HF_HOME ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'huggingface');
  const isSet = (value: string | undefined) => /^(1|on|yes|true)$/i.test(value ?? '');
  const saved = await readFile(environment.HF_TOKEN_PATH ?? join(home, 'token'), 'utf8').catch(() => '');
  return {
    url: (HF_ENDPOINT ?? 'https://huggingface.co').replace(/\/+$/, ''),
    cacheDir: HF_HUB_CACHE ?? HUGGINGFACE_HUB_CACHE ?? join(home, 'hub'),
    isOffline: isSet(environment.HF_HUB_OFFLINE) || isSet(environment.TRANSFORMERS_OFFLINE),
    token: HF_TOKEN?.trim() || saved.trim() || undefined,
  };
}

async function fromHub(name: string, local: string, options: ModelFolderOptions): Promise<string> {
  const { revision = 'main', environment = process.env, signal, timeoutMs = 60_000 } = options;
  const hub = await readHub(environment);
  const storage = join(hub.cacheDir, `models--${name.replace('/', '--')}`);
  if (hub.isOffline) {
    const cached = await cachedSnapshot(storage, revision);
    if (cached) return cached;
    throw new ConfigError(
      `no model ${name}: there is no folder ${local}, it is not in the cache ${storage}, and HF_HUB_OFFLINE is set`,
    );
  }
  const request = { hubUrl: hub.url, fetch: hubFetch(hub, timeoutMs, signal) };
  try {
    const info = await modelInfo({ ...request, name, revision, additionalFields: ['sha', 'filePaths'] });
    const wanted = info.filePaths.filter((path) => isWanted(path, options.weights ?? false));
    await fillSnapshot(storage, { ...request, repo: name, commit: info.sha }, wanted);
    if (revision !== info.sha) await writeReference(join(storage, 'refs', revision), info.sha);
    return join(storage, 'snapshots', info.sha);
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    const cached = error instanceof HubApiError ? undefined : await cachedSnapshot(storage, revision);
    if (cached) return cached;
    throw new ConfigError(
      `no model ${name}: there is no folder ${local}, and ${hub.url} says: ${explain(error)}`,
      {
        cause: error,
      },
    );
  }
}

/** Adds the token, which need not be one of huggingface.co, only for the hub: files may be elsewhere. */
function hubFetch(
  { url: hubUrl, token }: Hub,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): typeof fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const headers = new Headers(init?.headers);
    if (token && url.origin === new URL(hubUrl).origin) headers.set('Authorization', `Bearer ${token}`);
    const limits = [AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])];
    return fetch(input, { ...init, headers, signal: AbortSignal.any(limits) });
  };
}

function explain(error: unknown): string {
  if (!(error instanceof HubApiError)) {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
    return `${error instanceof Error ? error.message : error}${cause} (is the network up? HF_ENDPOINT names another hub)`;
  }
  const { statusCode } = error;
  if (statusCode === 401 || statusCode === 403) {
    return `${statusCode}: it does not exist, or is private or gated; HF_TOKEN must hold a token that may read it`;
  }
  return statusCode === 404 ? '404: there is no such model' : error.message;
}

const SMALL_FILES =
  /^(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|chat_template)\.json$|^chat_template\.jinja$/;

function isWanted(path: string, weights: boolean): boolean {
  return SMALL_FILES.test(path) || (weights && /^[^/]+\.safetensors(\.index\.json)?$/.test(path));
}

async function cachedSnapshot(storage: string, revision: string): Promise<string | undefined> {
  const commit = await readFile(join(storage, 'refs', revision), 'utf8').catch(() => revision);
  const snapshot = join(storage, 'snapshots', commit.trim());
  const found = await stat(snapshot).catch(() => undefined);
  return found?.isDirectory() ? snapshot : undefined;
}

async function writeReference(path: string, commit: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, commit);
}
