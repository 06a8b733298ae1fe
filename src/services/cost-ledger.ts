/** What has been spent, kept in a file so that a run that is killed and resumed does not begin its budget again. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { ConfigError } from '../errors.ts';

export interface CostLedger {
  readonly spent: number;
  add(amount: number): void;
}

/** Without a path it lasts as long as the process. A line is a JSON number; a torn last one is skipped. */
export function openCostLedger(path?: string): CostLedger {
  let spent = path === undefined ? 0 : readSpent(path);
  return {
    get spent() {
      return spent;
    },
    add: (amount) => {
      spent += amount;
      if (path !== undefined && amount !== 0) appendFileSync(path, `${amount}\n`);
    },
  };
}

function readSpent(path: string): number {
  if (!existsSync(path)) return 0;
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.reduce((sum, line, at) => {
    const amount = Number(line);
    if (line.trim() !== '' && Number.isFinite(amount)) return sum + amount;
    throw new ConfigError(`${path}, line ${at + 1} is ${JSON.stringify(line)}; a cost is a number`);
  }, 0);
}
