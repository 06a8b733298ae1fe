import { fileURLToPath } from 'node:url';
import { processAgent } from 'rollcall/agents';

/** A row of tasks.jsonl. */
export type Problem = { question: string; answer: number };

/** A program per attempt. It finds the model's URL and key, and its task, in its environment. */
export const solver = processAgent<Problem>({
  command: ['python3', fileURLToPath(new URL('solve.py', import.meta.url))],
});
