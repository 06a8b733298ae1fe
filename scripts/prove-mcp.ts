/** A thousand trajectories through one MCP server leave no process and no handle. */
import { readFlags } from './flags.ts';
import { conclude } from './verdict.ts';
import { proveByTests } from './vitest-proof.ts';

const { trajectories } = readFlags({ trajectories: '1000' }, { trajectories: '100' });
conclude(proveByTests(['test/mcp.test.ts'], { ROLLCALL_TRAJECTORIES: trajectories }));
