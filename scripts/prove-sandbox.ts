/** No attempt to break out of the sandbox succeeds: all 125 of test/sandbox, `--quick` those that `npm test` makes. */
import { readFlags } from './flags.ts';
import { conclude } from './verdict.ts';
import { proveByTests } from './vitest-proof.ts';

const { attempts } = readFlags({ attempts: 'all' }, { attempts: 'some' });
conclude(proveByTests(['test/sandbox'], { ROLLCALL_ATTEMPTS: attempts }));
