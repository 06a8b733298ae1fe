import { withEntries } from './functions.js';

let names = {};

export function initialize(data) {
  ({ names } = data);
}

export async function load(url, context, next) {
  const loaded = await next(url, context);
  const file = Object.keys(names).find((one) => url.endsWith(`/${one}`));
  if (file === undefined) return loaded;
  return { ...loaded, source: withEntries(String(loaded.source), names[file], (name) => `${file} ${name}`) };
}
