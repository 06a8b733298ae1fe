/** Where the reader is: `#/VIEW?name=value&…`. Everything on the page has such an address. */
import { useMemo, useSyncExternalStore } from 'react';

export interface Route {
  readonly view: string;
  get(name: string): string | undefined;
  number(name: string): number | undefined;
}

export type Parameters = Readonly<Record<string, string | number | undefined>>;

export function href(view: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return `#/${view}${text === '' ? '' : `?${text}`}`;
}

export function go(target: string): void {
  location.hash = target;
}

/** Changes some parameters of this address, without a step back in the history. */
export function change(parameters: Parameters): void {
  const { view, query } = parse(location.hash);
  const all = { ...Object.fromEntries(query), ...parameters };
  history.replaceState(null, '', href(view, all));
  dispatchEvent(new HashChangeEvent('hashchange'));
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(listen, () => location.hash);
  return useMemo(() => {
    const { view, query } = parse(hash);
    const get = (name: string) => query.get(name) ?? undefined;
    return {
      view,
      get,
      number: (name) => {
        const text = get(name);
        return text === undefined || !Number.isFinite(Number(text)) ? undefined : Number(text);
      },
    };
  }, [hash]);
}

function parse(hash: string): { view: string; query: URLSearchParams } {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  return { view: path === '' ? 'overview' : path, query: new URLSearchParams(query) };
}

function listen(changed: () => void): () => void {
  addEventListener('hashchange', changed);
  return () => removeEventListener('hashchange', changed);
}
