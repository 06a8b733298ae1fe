/**
 * A real SGLang on the CPU: `npm run prove sglang [-- --quick]`. It installs the server from PyPI once, starts it as a run would, and
 * shows on it the contract, abort, pauses, weights, adapters, every rollout mode, a kill in the middle of a step, the
 * rewards of the embedded engine, and that nothing is left of a server whose run was killed.
 */
import { proveServer } from './servers/prove.ts';
import { REAL_SERVERS } from './servers/real-server.ts';

await proveServer(REAL_SERVERS.sglang);
