import type { Command } from 'commander';
import { Option } from 'commander';
import { checkEnvironment, defaultPython, installEnvironment } from '../torch/environment.ts';

export function registerTorch(program: Command): void {
  const torch = program
    .command('torch')
    .description('the trainer on PyTorch: install it, check this machine');
  torch
    .command('install')
    .description('make the Python environment that `trainer: torch()` uses')
    .addOption(
      new Option('--build <build>', 'cpu is a tenth of the size').choices(['cuda', 'cpu']).default('cuda'),
    )
    .option('--python <program>', 'the Python to make it with', 'python3')
    .action(async ({ build, python }: { build: 'cuda' | 'cpu'; python: string }) => {
      const folder = await installEnvironment({ build, python, log: (line) => console.log(line) });
      console.log(`installed in ${folder}`);
    });
  torch
    .command('check')
    .description('what the trainer on PyTorch can do on this machine')
    .option('--python <program>', 'a Python with torch and transformers')
    .option('--json', 'print JSON')
    .action(async ({ python = defaultPython(), json }: { python?: string; json?: boolean }) => {
      const found = (await checkEnvironment(python)) as unknown as Machine;
      if (json) console.log(JSON.stringify(found));
      else for (const line of describe(python, found)) console.log(line);
    });
}

/** What `python -m rollcall_torch --check` prints. */
interface Machine {
  readonly python: string;
  readonly torch: string;
  readonly transformers: string;
  readonly cuda: string | null;
  readonly devices: readonly {
    readonly name: string;
    readonly capability: string;
    readonly bytes: number;
    readonly freeBytes: number;
    readonly attention: string;
  }[];
  readonly threads: number;
  readonly compiles: boolean;
}

const ATTENTION: Readonly<Record<string, string>> = {
  flash: 'the flash-attn package',
  varlen: "PyTorch's own kernel for packed rows",
  rows: 'row by row, which is slow',
};

function describe(python: string, found: Machine): string[] {
  const gigabytes = (bytes: number) => (bytes / 2 ** 30).toFixed(0);
  const devices = found.devices.map(
    ({ name, capability, bytes, freeBytes, attention }) =>
      `  ${name} (${capability}): ${gigabytes(freeBytes)} of ${gigabytes(bytes)} GiB free; bf16; attention by ${ATTENTION[attention]}`,
  );
  return [
    `${python}: Python ${found.python}, torch ${found.torch}, transformers ${found.transformers}`,
    found.devices.length > 0
      ? `CUDA ${found.cuda}, ${found.devices.length} GPUs: one rank each`
      : `no GPU: one rank in f32 on ${found.threads} threads, or several by \`ranks\``,
    ...devices,
    found.compiles ? 'torch.compile works (Triton is there)' : 'no Triton: leave `compile` off',
  ];
}
