// Calls kernels with arguments that are mostly plausible and partly absurd, in a separate process:
// `fuzz-process.ts KIND SEED CALLS`. Prints how many calls were accepted and refused. Ends with 1 if a byte outside the
// heap changed; a crash ends the process.
import { createRandom } from '../../../lib/random.ts';
import { type Backend, DETAILS, NEEDS_WORKSPACE } from '../backend.ts';
import { loadNative } from '../native.ts';
import { argumentNames, OP_NAMES } from '../op-arguments.ts';
import { loadWasm } from '../wasm.ts';

const HEAP = 3 * 2 ** 20;
const WORKSPACE = 2 ** 20;
const GUARD = 2 ** 20;

const [kind, seed, calls] = process.argv.slice(2);
const random = createRandom(Number(seed));
const backend: Backend = kind === 'wasm' ? await loadWasm(2) : await loadNative(2, () => {});
const end = backend.low + HEAP;
backend.setHeap(end + GUARD, 0, 0);
const all = backend.locate(backend.low, HEAP + GUARD);
const bytes = new Uint8Array(all.buffer, all.offset, HEAP + GUARD);
const ints = new Int32Array(all.buffer, all.offset, HEAP / 4);
bytes.fill(0xa5, HEAP);
backend.setHeap(end, end - WORKSPACE, WORKSPACE);

const absurd = [
  -1,
  0.5,
  Number.NaN,
  Infinity,
  -Infinity,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  1e300,
  2 ** 31 - 1,
  4,
  end,
  end - 4,
];
const isSize =
  /^(m|n|k|rows|width|count|heads|kvHeads|headDim|tokens|vocabulary|entries|blocks|tableRows|sequenceCount|blocksPerSequence)$/;

function plausible(name: string): number {
  if (isSize.test(name)) return random.pick([0, 1, 2, 3, 4, 6, 8, 16, 17, 30]);
  if (name === 'blockTokens') return random.pick([16, 32]);
  if (name === 'window') return random.pick([0, 0, 1, 5, 40]);
  if (/Stride$|^stride$/.test(name)) return random.pick([0, 0, 40, 600]);
  if (/^(accumulate|transposed|half|format|full)$/.test(name)) return random.integer(2);
  if (
    /^(temperature|scale|alpha|cap|offset$|value|learningRate|beta|epsilon|weightDecay|correction|gradientScale)/.test(
      name,
    )
  ) {
    return random.next();
  }
  return backend.low + 8 * random.integer((HEAP - WORKSPACE) / 8 - 40_000);
}

/** Small integers, so that lists of ids, positions and rows are sometimes right; a few wild ones. */
function scramble(): void {
  for (let i = 0; i < ints.length - WORKSPACE / 4; i++) ints[i] = random.integer(9);
  for (let i = 0; i < 2000; i++)
    ints[random.integer(ints.length - WORKSPACE / 4)] = random.pick([-1, 2 ** 31 - 1, 1e6]);
}

let accepted = 0;
const acceptedOps = new Set<string>();
for (let call = 0; call < Number(calls); call++) {
  if (call % 500 === 0) scramble();
  const op = random.pick(OP_NAMES);
  const names = argumentNames(op);
  for (const [index, name] of names.entries()) {
    const flagged = name === 'inverse' && op === 'rope';
    backend.arguments[index] = flagged ? random.integer(2) : plausible(name);
  }
  // In `sample` and `lossForward` the temperature is, respectively, a list and a number.
  if (op === 'sample' || op === 'logprobs')
    backend.arguments[names.indexOf('temperature')] = plausible('list');
  if (random.next() < 0.5) backend.arguments[random.integer(names.length)] = random.pick(absurd);
  const code = backend.run(backend.opNames.indexOf(op));
  if (code === NEEDS_WORKSPACE && !(backend.arguments[DETAILS]! > WORKSPACE)) process.exit(2);
  if (code !== 0) continue;
  accepted++;
  acceptedOps.add(op);
}
if (backend.run(10_000) === 0) process.exit(3);
const touched = bytes.subarray(HEAP).findIndex((byte) => byte !== 0xa5);
const never = OP_NAMES.filter((op) => !acceptedOps.has(op));
process.stdout.write(`${JSON.stringify({ accepted, refused: Number(calls) - accepted, never, touched })}\n`);
await backend.close();
process.exit(touched === -1 ? 0 : 1);
