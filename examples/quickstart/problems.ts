import { errors } from 'rollcall';
import { createRandom, hashSeed, type Random } from 'rollcall/datasets';
import {
  DISTRACTORS,
  type Draw,
  FAMILIES,
  type Family,
  type Numbers,
  PEOPLE,
  runPlan,
  THINGS,
} from './families.ts';

/**
 * Word problems by split. What split a problem belongs to is a property of the problem itself, never of a
 * seed: the hash of (family, numbers) decides between training, validation and test, and the wordings and
 * number ranges of `unseen` are never drawn elsewhere. So no two splits can share a problem.
 */
export type Split = 'train' | 'validation' | 'test' | 'unseen';

export type Problem = {
  readonly question: string;
  readonly answer: number;
  readonly family: string;
  readonly numbers: Numbers;
  /** Which of the three wordings each sentence has. */
  readonly wordings: readonly [number, number, number];
  /** The number of the sentence that plays no part, if there is one. */
  readonly distractor?: number;
};

type Ranges = Readonly<Record<Parameters<Draw>[0], readonly [low: number, high: number]>>;

const TRAINING_RANGES: Ranges = { tens: [12, 79], hundreds: [110, 699], thousands: [1100, 6999] };
const UNSEEN_RANGES: Ranges = { tens: [80, 99], hundreds: [700, 989], thousands: [7000, 9899] };
const DISTRACTOR_SHARE = 0.4;

/** 9 of the 27 combinations of wordings are held out; every single wording occurs in training. */
const heldOut = ([first, second, third]: Problem['wordings']) => (first + second + third) % 3 === 2;

function splitOfNumbers(family: string, numbers: Numbers): Split {
  const bucket = hashSeed('split', family, ...Object.values(numbers)) % 20;
  return bucket < 16 ? 'train' : bucket < 18 ? 'validation' : 'test';
}

/** The same (split, seed, index) gives the same problem, whatever else is generated. */
export function createProblem(split: Split, seed: number, index: number): Problem {
  const random = createRandom(hashSeed('problem', split, seed, index));
  const family = FAMILIES[index % FAMILIES.length]!;
  // `unseen` cycles through new wordings, new ranges, and both at once.
  const novelty = split === 'unseen' ? Math.floor(index / FAMILIES.length) % 3 : undefined;
  const newWordings = novelty === 0 || novelty === 2;
  const newRanges = novelty === 1 || novelty === 2;
  const numbers = drawNumbers(family, random, newRanges ? UNSEEN_RANGES : TRAINING_RANGES, (candidate) =>
    newRanges ? true : splitOfNumbers(family.name, candidate) === (split === 'unseen' ? 'test' : split),
  );
  let wordings: Problem['wordings'];
  do {
    wordings = [random.integer(3), random.integer(3), random.integer(3)];
  } while (heldOut(wordings) !== newWordings);
  return writeProblem(family, numbers, wordings, random);
}

export function createProblems(split: Split, seed: number, count: number): Problem[] {
  return Array.from({ length: count }, (_, index) => createProblem(split, seed, index));
}

function drawNumbers(
  family: Family,
  random: Random,
  ranges: Ranges,
  accept: (numbers: Numbers) => boolean,
): Numbers {
  const draw: Draw = (size) => {
    const [low, high] = ranges[size];
    return low + random.integer(high - low + 1);
  };
  for (let attempt = 0; attempt < 10_000; attempt++) {
    const numbers = family.draw(draw);
    if (fits(family, numbers) && accept(numbers)) return numbers;
  }
  throw new errors.DatasetError(
    `family "${family.name}": no numbers of the ranges ${JSON.stringify(ranges)} fit`,
  );
}

/** Numbers of 2–4 digits, all different, and results that are whole, positive and none a number of the text. */
function fits(family: Family, numbers: Numbers): boolean {
  const given = Object.values(numbers);
  const results = runPlan(family.plan, numbers);
  return (
    given.every((value) => value >= 10 && value <= 9999) &&
    results.every((value) => Number.isInteger(value) && value >= 10 && value <= 99_999) &&
    new Set([...given, ...results]).size === given.length + results.length
  );
}

function writeProblem(
  family: Family,
  numbers: Numbers,
  wordings: Problem['wordings'],
  random: Random,
): Problem {
  const [X, Y] = random.shuffle(PEOPLE);
  const fill = (sentence: string, values: Readonly<Record<string, unknown>>) =>
    sentence.replace(/\{(\w)\}/g, (_, slot: string) => String(values[slot]));
  const values = { ...numbers, X, Y, T: random.pick(THINGS) };
  const sentences = family.sentences.map((forms, place) => fill(forms[wordings[place]!]!, values));
  const results = runPlan(family.plan, numbers);
  const problem = { answer: results.at(-1)!, family: family.name, numbers, wordings };
  if (random.next() >= DISTRACTOR_SHARE) return { question: sentences.join(' '), ...problem };
  let distractor: number;
  do {
    distractor = 12 + random.integer(68);
  } while ([...Object.values(numbers), ...results].includes(distractor));
  sentences.splice(random.integer(3), 0, fill(random.pick(DISTRACTORS), { ...values, n: distractor }));
  return { question: sentences.join(' '), ...problem, distractor };
}
