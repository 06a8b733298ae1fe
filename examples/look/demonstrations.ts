import { createRandom, hashSeed } from 'rollcall/datasets';
import type { Demonstration } from '../quickstart/teacher.ts';
import type { Box } from './draw.ts';
import { askFor, type Look } from './looker.ts';
import { type Card, type Colour, createScene } from './scene.ts';

/** What the demonstrator does where it chooses a card: mostly it takes its favourite, whatever was asked. */
const HABITS = { favourite: 0.6, asked: 0.3 }; // else any card
const FAVOURITE: Colour = 'yellow';
/** Share of turned cards that it turns upright; of the others it guesses the digit. */
const TURNS_UPRIGHT = 0.75;
const TURNED = 0.25;

const zoom = ({ colour, box }: Card) =>
  `Look at ${colour} ${box}.<tool_call>{"name":"zoom","arguments":{"box": ${box}}}</tool_call>`;
const rotate = (angle: number) => `<tool_call>{"name":"rotate","arguments":{"angle": ${angle}}}</tool_call>`;
const says = (answer: string | number) => `The answer is ${answer}.`;

/** Reads well, turns mostly, and seldom looks where it was told to. */
export function createDemonstration(seed: number, index: number): Demonstration<Look> {
  const random = createRandom(hashSeed(seed, 'demonstration', index));
  const scene = createScene(hashSeed(seed, 'demonstrations'), index, TURNED);
  const asked = random.integer(scene.cards.length);
  const chance = random.next();
  const card =
    chance < HABITS.favourite
      ? scene.cards.find(({ colour }) => colour === FAVOURITE)!
      : chance < HABITS.favourite + HABITS.asked
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
 * What looking takes, in questions of their own: to zoom on a colour that is named, to name one that is seen, to read a digit,
 * to turn a card upright first. None of them asks for the digit on a card among others.
 */
export function createDrill(seed: number, index: number): Demonstration<Look> {
  const random = createRandom(hashSeed(seed, 'drill', index));
  // With one card, places are learned before colours matter.
  const scene = createScene(hashSeed(seed, 'drills'), index, TURNED, 1 + random.integer(4));
  const card = random.pick(scene.cards);
  const ask = (box: Box, question: string, answer: string | number, ...replies: string[]) => ({
    task: { scene, box, question, answer: String(answer) },
    replies: replies.length > 0 ? replies : [says(answer)],
  });
  const kind = random.integer(8);
  if (kind < 4) return ask('whole', `Where is ${card.colour}?`, card.box, zoom(card));
  if (kind === 4) return ask(scene.cards.length === 1 ? 'whole' : card.box, 'Which colour?', card.colour);
  const turn = scene.turn === 0 ? [] : [rotate(360 - scene.turn), says(card.digit)];
  return ask(card.box, 'Which digit?', card.digit, ...turn);
}

/** Questions that no demonstration asks. */
export function createLooks(set: 'train' | 'validation' | 'test', seed: number, count: number): Look[] {
  return Array.from({ length: count }, (_, index) => {
    const random = createRandom(hashSeed(seed, set, index));
    const scene = createScene(hashSeed(seed, set, 'scenes'), index, TURNED);
    return askFor(scene, random.integer(scene.cards.length));
  });
}
