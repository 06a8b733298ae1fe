/**
 * Agents from outside are trained token for token: every client and framework, streaming or not, and a Python program with
 * OpenAI's client give the tokens and, after two steps, the weights of an own loop; opencode, a coding agent from npm, runs
 * unmodified with a sub-agent, a lost connection and a compaction; Mastra and AI SDK 7 are type-checked and played on Node 22; one
 * program trains the same weights on Node 20, 22 and 24. Installs them in ~/.cache/rollcall/agents. `--only clients`, `opencode`,
 * `frameworks` or `nodes`: one of them; `--model DIR`: what is trained, instead of the quick start's warm start.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { proveClients } from './agents/clients.ts';
import { proveCodingAgent } from './agents/coding-agent.ts';
import { NODE, PACKAGES, proveNewerNode } from './agents/newer-node.ts';
import { proveOtherNodes } from './agents/other-nodes.ts';
import { CACHE, npmFolder, pythonWith } from './agents/set-up.ts';
import { readFlags } from './flags.ts';
import { warmStart } from './short-run.ts';
import { type Aim, conclude } from './verdict.ts';

const flags = readFlags({ only: '', model: '', tasks: '8', seconds: '240' }, { tasks: '4' });
const OPENCODE = `opencode-${process.platform}-${process.arch}`;
const VERSION = '1.18.33';
const folder = mkdtempSync(join(tmpdir(), 'rollcall-prove-agents-'));
const aims: Aim[] = [];
const figures: Record<string, object> = {};

const model = async () => flags.model || (await warmStart(CACHE, { seed: 1, variant: 'short' }));
const nodeOf = (packages: string) => join(packages, 'node_modules', NODE, 'bin', 'node');

const PROOFS: Readonly<Record<string, () => Promise<{ aims: readonly Aim[]; figures: object }>>> = {
  clients: async () => {
    const python = pythonWith('openai');
    return proveClients({ model: await model(), folder, python, tasks: Number(flags.tasks) });
  },
  opencode: () => {
    const installed = npmFolder('opencode', [`${OPENCODE}@${VERSION}`]);
    const program = join(installed, 'node_modules', OPENCODE, 'bin', 'opencode');
    return proveCodingAgent({ program, folder, seconds: Number(flags.seconds) });
  },
  frameworks: () => proveNewerNode(npmFolder('node22', PACKAGES)),
  nodes: async () =>
    proveOtherNodes({
      model: await model(),
      folder,
      nodes: {
        [process.versions.node]: process.execPath,
        22: nodeOf(npmFolder('node22', PACKAGES)),
        24: nodeOf(npmFolder('node24', [`${NODE}@24`])),
      },
    }),
};

try {
  for (const [name, prove] of Object.entries(PROOFS)) {
    if (flags.only !== '' && flags.only !== name) continue;
    const proved = await prove();
    aims.push(...proved.aims);
    figures[name] = proved.figures;
    console.log(name, JSON.stringify(proved.figures));
  }
  conclude(aims, figures);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
