import { Command } from 'commander';

export async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('rollcall').description('Trains the model behind a tool-using agent.');
  await program.parseAsync(argv, { from: 'user' });
}
