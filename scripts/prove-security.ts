/** Each attack on servers, files, templates and secrets is refused, and succeeds without the guard: test/security. */
import { readFlags } from './flags.ts';
import { conclude } from './verdict.ts';
import { proveByTests } from './vitest-proof.ts';

readFlags({}, {});
conclude(proveByTests(['test/security'], {}));
