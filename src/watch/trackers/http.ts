import { TrackerRefusal } from '../tracker.ts';

export interface Request {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH';
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON. */
  readonly body?: object | Uint8Array;
  readonly signal: AbortSignal;
}

/** An answer that says no, with its status. */
export class HttpError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Statuses after which the same request would be refused again. */
const REFUSED = [400, 413, 415, 422];

/** The answer's JSON. Errors name the address without its query, and what was answered. */
export async function request(
  url: string,
  { method = 'POST', headers = {}, body, signal }: Request,
): Promise<unknown> {
  const where = url.split('?')[0]!;
  const bytes = body instanceof Uint8Array ? body : body && JSON.stringify(body);
  const type = body instanceof Uint8Array ? 'application/octet-stream' : 'application/json';
  const response = await fetch(url, {
    method,
    headers: { ...(body ? { 'content-type': type } : {}), ...headers },
    ...(bytes === undefined ? {} : { body: bytes as string | Uint8Array<ArrayBuffer> }),
    signal,
  }).catch((error: unknown) => {
    if (signal.aborted) throw signal.reason;
    throw new Error(`cannot be reached at ${where}`, { cause: rootOf(error) });
  });
  const text = await response.text();
  if (!response.ok) {
    const message = `answered ${response.status} at ${where}: ${text.slice(0, 300)}`;
    if (REFUSED.includes(response.status)) throw new TrackerRefusal(message);
    throw new HttpError(response.status, message);
  }
  try {
    return text === '' ? {} : (JSON.parse(text) as unknown);
  } catch {
    return {}; // OTLP answers in protobuf, proxies in HTML; what matters was the status
  }
}

/** `fetch` hides the reason (ECONNREFUSED …) in causes. */
function rootOf(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof Error ? error.cause : error;
}

/** An http(s) address without user, password and trailing slash, and the Basic header that they make. */
export function splitCredentials(address: string): { url: string; headers: Record<string, string> } {
  const url = new URL(address);
  const { username, password } = url;
  url.username = '';
  url.password = '';
  return {
    url: url.href.replace(/\/+$/, ''),
    headers: username === '' ? {} : basic(decodeURIComponent(username), decodeURIComponent(password)),
  };
}

export const basic = (user: string, password: string): Record<string, string> => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

/** JSON has no NaN; MLflow reads these strings. */
export const jsonNumber = (value: number): number | string =>
  Number.isFinite(value) ? value : String(value);
