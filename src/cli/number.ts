import { InvalidArgumentError } from 'commander';

/** Parsers of numbers on the command line. Commander names the flag and the value before what they say. */
type Parser<T> = (text: string) => T;

export const whole = (least: number, most = Number.MAX_SAFE_INTEGER): Parser<number> =>
  parser(`a whole number ${within(least, most)}`, read, isWhole(least, most));

export const number = (least: number, most = Number.MAX_VALUE): Parser<number> =>
  parser(`a number ${within(least, most)}`, read, (value) => value >= least && value <= most);

export const positive: Parser<number> = parser(
  'a number above 0',
  read,
  (value) => value > 0 && Number.isFinite(value),
);

/** Where 0 takes a free one. */
export const port: Parser<number> = whole(0, 65_535);

export const wholes = (least: number): Parser<number[]> =>
  parser(
    `whole numbers of ${least} or more with commas between, such as 1,15,30`,
    (text) => text.split(',').map(read),
    (list) => list.every(isWhole(least)),
  );

function parser<T>(wanted: string, parse: Parser<T>, isRight: (value: T) => boolean): Parser<T> {
  return (text) => {
    const value = parse(text);
    if (isRight(value)) return value;
    throw new InvalidArgumentError(`Use ${wanted}.`);
  };
}

/** `Number`, to which an empty text is 0. */
function read(text: string): number {
  return text.trim() === '' ? Number.NaN : Number(text);
}

function isWhole(least: number, most = Number.MAX_SAFE_INTEGER): (value: number) => boolean {
  return (value) => Number.isSafeInteger(value) && value >= least && value <= most;
}

function within(least: number, most: number): string {
  return most >= Number.MAX_SAFE_INTEGER ? `of ${least} or more` : `from ${least} to ${most}`;
}
