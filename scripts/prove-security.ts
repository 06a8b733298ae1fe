/**
 * Each attack on servers, files, templates, secrets and dialogues is refused, and succeeds without the guard: test/security, and
 * inputs that a fuzzer found. docs/security.md tells what is defended.
 */
import { readFlags } from './flags.ts';
import { conclude } from './verdict.ts';
import { proveByTests } from './vitest-proof.ts';

const { attacks } = readFlags({ attacks: 'all' }, { attacks: 'some' });
conclude(proveByTests(['test/security', 'test/fuzz.test.ts'], { ROLLCALL_ATTACKS: attacks }));
