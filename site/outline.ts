/** Which pages the site has, in which order, and their short names. Pages of docs/ that are not named here come last. */
import { readdirSync } from 'node:fs';

export interface Chapter {
  readonly text: string;
  /** The pages: file in the repository, name in the sidebar. */
  readonly pages: readonly (readonly [file: string, name: string])[];
}

const NAMED: readonly Chapter[] = [
  {
    text: 'Start',
    pages: [
      ['docs/for-newcomers.md', 'New to RL'],
      ['docs/for-agent-engineers.md', 'You have an agent'],
      ['docs/for-gpu-teams.md', 'You have GPUs'],
      ['docs/from-verl.md', 'Coming from verl'],
      ['docs/verl-documents.md', "verl's documents"],
      ['docs/quickstart.md', 'The quick start'],
      ['docs/laptop.md', 'A real model on a laptop'],
      ['docs/hardware.md', 'Hardware'],
      ['docs/troubleshooting.md', 'Troubleshooting'],
    ],
  },
  {
    text: 'Agents',
    pages: [
      ['docs/agents.md', 'Agents'],
      ['docs/tools.md', 'Tools'],
      ['docs/rewards.md', 'Rewards'],
      ['docs/datasets.md', 'Datasets'],
      ['docs/images.md', 'Images'],
      ['docs/interactions.md', 'Simulated users'],
      ['docs/sandbox.md', 'Sandbox'],
      ['docs/frameworks.md', 'Agent frameworks'],
      ['docs/endpoint.md', 'Agents behind a base URL'],
      ['docs/processes.md', 'Programs and services'],
      ['docs/tasks.md', 'More tasks'],
    ],
  },
  {
    text: 'Training',
    pages: [
      ['docs/algorithms.md', 'Algorithms'],
      ['docs/modes.md', 'Modes'],
      ['docs/servers.md', 'Servers'],
      ['docs/torch.md', 'PyTorch trainer'],
      ['docs/torch-protocol.md', 'Its protocol'],
      ['docs/ray.md', 'Ray'],
      ['docs/slurm.md', 'Slurm'],
      ['docs/containers.md', 'Containers'],
      ['docs/scale.md', 'Scale'],
      ['docs/tinker.md', 'Rented training'],
      ['docs/scheduling.md', 'Scheduling'],
      ['docs/tokens.md', 'Tokens'],
      ['docs/tool-call-formats.md', 'Tool-call formats'],
    ],
  },
  {
    text: 'Watching',
    pages: [
      ['docs/watch.md', 'The dashboard'],
      ['docs/metrics.md', 'Metrics'],
      ['docs/trackers.md', 'Trackers'],
      ['docs/run-directory.md', 'The run directory'],
      ['docs/faults.md', 'What a run survives'],
    ],
  },
  {
    text: 'Reference',
    pages: [
      ['docs/options.md', 'Options'],
      ['docs/architecture.md', 'Architecture'],
      ['docs/ports.md', 'Ports'],
      ['docs/benchmarks.md', 'Benchmarks'],
      ['CONTRIBUTING.md', 'Contributing'],
      ['CHANGELOG.md', 'Changelog'],
    ],
  },
];

const named = new Set(NAMED.flatMap(({ pages }) => pages.map(([file]) => file)));
const others = readdirSync('docs').filter((name) => name.endsWith('.md') && !named.has(`docs/${name}`));

export const CHAPTERS: readonly Chapter[] = [
  ...NAMED,
  ...(others.length
    ? [{ text: 'More', pages: others.map((name) => [`docs/${name}`, name.slice(0, -3)] as const) }]
    : []),
];
