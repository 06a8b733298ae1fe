import { createRandom, hashSeed } from 'rollcall/datasets';
import type { Demonstration } from '../quickstart/teacher.ts';
import { type Box, WHOLE } from './draw.ts';
import { askFor, type Look } from './looker.ts';
import { type Card, createScene, topCard } from './scene.ts';

/** What the demonstrator does where it chooses: mostly it takes the card it sees first, whatever was asked. */
const HABITS = { top: 0.7, asked: 0.2 }; // else any card
/** Share of turned cards that it turns upright; of the others it guesses the digit. */
const TURNS_UPRIGHT = 0.75;
const TURNED = 0.25;

const zoom = ({ column, row }: Card) =>
  `<tool_call>{"name":"zoom","arguments":{"box":[${[column, row, column + 2, row + 2]}]}}</tool_call>`;
const rotate = (angle: number) => `<tool_call>{"name":"rotate","arguments":{"angle":${angle}}}</tool_call>`;
const says = (answer: string | number) => `The answer is ${answer}.`;

/** Reads well, turns mostly, and seldom looks where it was told to. */
export function createDemonstration(seed: number, index: number): Demonstration<Look> {
  const random = createRandom(hashSeed(seed, 'demonstration', index));
  const scene = createScene(hashSeed(seed, 'demonstrations'), index, TURNED);
  const asked = random.integer(scene.cards.length);
  const chance = random.next();
  const card =
    chance < HABITS.top
      ? topCard(scene)
      : chance < HABITS.top + HABITS.asked
        ? scene.cards[asked]!
        : random.pick(scene.cards);
  const turns = scene.turn !== 0 && random.next() < TURNS_UPRIGHT;
  const isReadable = scene.turn === 0 || turns;
  return {
    task: askFor(scene, asked),
    replies: [
      zoom(card),
      ...(turns ? [rotate(360 - scene.turn)] : []),
      says(isReadable ? card.digit : random.integer(10)),
    ],
  };
}

/**
 * What looking takes, in questions of their own: to read a digit that stands upright, to turn a card, to name a colour, to
 * say where a colour is. None of them says where to zoom.
 */
export function createDrill(seed: number, index: number): Demonstration<Look> {
  return drill(seed, index, 3);
}

/** The same without the question where a card is: what is learned first is to read. */
export function createReadingDrill(seed: number, index: number): Demonstration<Look> {
  return drill(seed, index, 0);
}

/** `places` of eight ask where a card is. */
function drill(seed: number, index: number, places: number): Demonstration<Look> {
  const random = createRandom(hashSeed(seed, 'drill', places, index));
  const scene = createScene(hashSeed(seed, 'drills'), index, TURNED);
  const { column, row, digit, colour } = random.pick(scene.cards);
  const near = [column, row, column + 2, row + 2] as const;
  const ask = (box: Box, question: string, answer: string): Demonstration<Look> => ({
    task: { scene, box, question, answer },
    replies: [says(answer)],
  });
  const kind = random.integer(8);
  if (kind === 0) return ask(near, 'Which colour?', colour);
  if (kind <= places) return ask(WHOLE, `Where is the ${colour} card?`, `${column}${row}`);
  const read = ask(near, 'Which digit?', String(digit));
  return scene.turn === 0 ? read : { ...read, replies: [rotate(360 - scene.turn), ...read.replies] };
}

/** Questions that no demonstration asks. */
export function createLooks(set: 'train' | 'validation' | 'test', seed: number, count: number): Look[] {
  return Array.from({ length: count }, (_, index) => {
    const random = createRandom(hashSeed(seed, set, index));
    const scene = createScene(hashSeed(seed, set, 'scenes'), index, TURNED);
    return askFor(scene, random.integer(scene.cards.length));
  });
}
