import { tool } from 'rollcall';
import { openSandbox } from 'rollcall/services';

const sandbox = await openSandbox('javascript', { milliseconds: 2000, memoryMiB: 64 });

/** What the model writes runs where it sees no files and no network, and is ended after two seconds. */
export const calculator = tool({
  name: 'calculator',
  description: 'One operation on two numbers.',
  input: {
    type: 'object',
    properties: { expression: { type: 'string' } },
    required: ['expression'],
  } as const,
  run: async ({ expression }, { signal }) => {
    const { status, stdout, stderr } = await sandbox.run(`console.log(${expression})`, { signal });
    return status === 'ok' ? stdout.trim() : `Error: ${stderr.trim() || status}`;
  },
});
