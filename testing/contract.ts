/**
 * One rule of a contract. Contracts belong to no test runner: a case is a name and a function that throws where the rule
 * is broken. With vitest, jest or node:test: `for (const { name, run } of cases) test(name, run)`.
 */
export interface ContractCase {
  readonly name: string;
  run(): Promise<void>;
}

interface Closable {
  close(): Promise<void>;
}

/** Cases that each open a fresh implementation and close it. */
export class CaseList<T extends Closable> {
  readonly cases: ContractCase[] = [];
  readonly #open: () => Promise<T>;

  constructor(open: () => Promise<T>) {
    this.#open = open;
  }

  add(name: string, check: (opened: T) => Promise<void>): void {
    const run = async () => {
      const opened = await this.#open();
      try {
        await check(opened);
      } finally {
        await opened.close();
      }
    };
    this.cases.push({ name, run });
  }
}
