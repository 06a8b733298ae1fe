/** What can go wrong at which kind of call. */
export const FAULTS = {
  open: ['EIO', 'EMFILE', 'slow'],
  create: ['ENOSPC', 'EIO', 'EMFILE', 'slow'],
  read: ['EIO', 'EMFILE', 'slow'],
  write: ['ENOSPC', 'EIO', 'torn', 'slow'],
  sync: ['EIO', 'ENOSPC', 'slow'],
  rename: ['EIO', 'ENOSPC', 'lost', 'slow'],
  change: ['EIO', 'ENOSPC', 'slow'],
  look: ['EIO', 'slow'],
  close: ['EIO'],
  process: ['EAGAIN', 'killed'],
  connect: ['refused', 'dns', 'reset', 'half-open'],
  worker: ['out of memory'],
  timer: ['late'],
  time: ['an hour ahead', 'an hour back'],
} as const;

export type Family = keyof typeof FAULTS;
export type Fault = (typeof FAULTS)[Family][number];

/** One call of a run, and how it fails. */
export interface Point {
  readonly scenario: string;
  readonly family: Family;
  readonly site: string;
  /** Which call of the site, from 1. */
  readonly nth: number;
  readonly fault: Fault;
}

/**
 * What the preload does: write down every call in a file, or everything that is written below a folder, or fail one call and
 * say there that it did.
 */
export type Order =
  | { readonly kind: 'note'; readonly file: string }
  | { readonly kind: 'log'; readonly file: string; readonly below: string }
  | ({ readonly kind: 'fail'; readonly file: string } & Pick<Point, 'site' | 'nth' | 'fault'>);

/** Worker threads get it with the environment. */
export const ORDER = 'ROLLCALL_FAULT_ORDER';

export function readOrder(): Order | undefined {
  const text = process.env[ORDER];
  return text ? (JSON.parse(text) as Order) : undefined;
}
