import { EngineError } from '../../errors.ts';
import { DETAILS } from './backend.ts';

const CACHE =
  'blocks blockTokens kvHeads headDim half sequenceCount blocksPerSequence tokens keys values blockTable sequences positions';
const ROWS =
  'tokens heads kvHeads headDim rows qStride kStride vStride scale rowStart rowLength prefixStart prefixLength full window cap';

/** The arguments of every op in the order in which C takes them. */
const NAMES = {
  packedBytes: 'n k half',
  pack: 'n k stride transposed half weight packed',
  matmul: 'm n k xStride yStride accumulate half x packed y bias',
  packedBytesInt8: 'n k',
  packInt8: 'n k stride weight packed',
  matmulInt8: 'm n k xStride yStride accumulate x packed y bias',
  weightGradient: 'm n k dyStride xStride dwStride half dy x dw',
  biasGradient: 'm n dyStride dy db',
  gather: 'rows width count table ids out',
  scatterAdd: 'rows width count table ids source',
  rmsNorm: 'rows width heads stride outStride epsilon offset x weight out inverse residual sum',
  rmsNormBackward:
    'rows width heads stride dyStride dxStride accumulate offset x weight inverse dy dx dweight',
  rope: 'rows heads headDim stride tableRows inverse x positions cos sin',
  siluMultiply: 'rows width stride gate up out',
  siluMultiplyBackward: 'rows width stride gate up dout dgate dup',
  geluMultiply: 'rows width stride gate up out',
  geluMultiplyBackward: 'rows width stride gate up dout dgate dup',
  gelu: 'count x out',
  geluBackward: 'count x dout dx',
  softCap: 'count cap x',
  softCapBackward: 'count cap y dy',
  add: 'count a b out',
  multiply: 'count a b out',
  axpy: 'count alpha x y',
  scale: 'count alpha x',
  copy: 'count from to',
  fill: 'count value x',
  round: 'rows width stride x',
  attention: `${ROWS} q k v out logsumexp`,
  attentionBackward: `${ROWS} q k v out logsumexp dout dq dk dv`,
  cacheBytes: 'blocks blockTokens kvHeads headDim half',
  cacheWrite: `${CACHE} kStride vStride k v`,
  cacheAttention: `${CACHE} heads qStride scale window cap q out`,
  lossForward: 'rows vocabulary temperature logits targets logprob logsumexp entropy sumSquares',
  lossBackward:
    'rows vocabulary temperature logits targets logsumexp entropy sumSquares dLogprob dEntropy dSumSquares',
  penalize: 'rows vocabulary entries logits offsets ids counts repetition presence frequency',
  sample: 'rows vocabulary logits temperature topK topP minP uniform ids logprob',
  logprobs: 'rows vocabulary logits targets temperature logprob',
  adamW:
    'count learningRate beta1 beta2 epsilon weightDecay correction1 correction2 gradientScale parameter gradient moment1 moment2',
  sumOfSquares: 'count x',
  allFinite: 'count x',
  widen: 'count format from to',
  narrow: 'count format from to',
} as const;

export type OpName = keyof typeof NAMES;
export const OP_NAMES = Object.keys(NAMES) as OpName[];

export const argumentNames = (op: OpName): readonly string[] => NAMES[op].split(' ');

/** What a code from C means, in words. Codes as in native/context.h: a reason and, from 1, the argument. */
export function describeError(op: OpName, code: number, slots: Float64Array): EngineError {
  const argument = (code & 0xff) - 1;
  const name = argumentNames(op)[argument] ?? `argument ${argument}`;
  const value = slots[argument];
  const [first, second] = [slots[DETAILS], slots[DETAILS + 1]];
  const reasons: Record<number, string> = {
    1: `${name} is ${value}, which is not a size it can have`,
    2: `${name} is ${value}, which is not the address of a tensor of that size in the heap`,
    3: `${name} is ${value}, outside the numbers it can be`,
    4: `${name}[${first}] is ${second}, which is out of range`,
    5: `row ${first} of ${name} has no finite maximum, or is not a number`,
  };
  return new EngineError(`kernel ${op}: ${reasons[code >> 8] ?? `failed with code ${code}`}`);
}
