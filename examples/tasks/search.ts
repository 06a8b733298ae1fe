/**
 * The model learns to look things up, twice where once is not enough, in a corpus of 4,096 paragraphs.
 *
 *   user       What is the town of the friend of Ada Elm Hill?
 *   assistant  <tool_call>{"name":"search","arguments":{"query_list":["Ada Elm Hill"]}}</tool_call>
 *   tool       … The town of Ada Elm Hill is Orton, the friend of Ada Elm Hill is Karl Fern Lake.
 *   assistant  <tool_call>{"name":"search","arguments":{"query_list":["Karl Fern Lake"]}}</tool_call>
 *   tool       … The town of Karl Fern Lake is Delf, the friend of …
 *   assistant  The answer is Delf.
 *
 * The demonstrations mostly answer a question about a friend with what the first paragraph says. A retriever that
 * returns any paragraph leaves nothing but a guess: one of 16.
 */
import { arrayDataset, reward, type Tool, type TrainOptions, toolLoop } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { createRandom, hashSeed } from 'rollcall/datasets';
import { localSearchTool } from 'rollcall/tools';
import type { Exercise } from './exercise.ts';

const words = (list: string) => list.split(' ');
const FIRST = words('Ada Bea Cleo Dora Emil Fritz Gus Hugo Ida Jana Karl Leni Mona Nils Olga Paul');
const MIDDLE = words('Ash Birch Cedar Elm Fern Hazel Ivy Larch Maple Oak Pine Rowan Sage Thorn Willow Yew');
const LAST = words('Bank Cliff Dale Field Glen Hill Lake Marsh Moor Pond Ridge Shore Stone Vale Well Wood');
const TOWNS = words(
  'Aster Brume Corin Delf Ester Fable Gable Holm Inver Jarrow Kelso Lorne Minto Nairn Orton Perth',
);

interface Person {
  readonly name: string;
  readonly town: string;
  /** Number of another person. */
  readonly friend: number;
}

export const PEOPLE: readonly Person[] = FIRST.flatMap((first) =>
  MIDDLE.flatMap((middle) => LAST.map((last) => `${first} ${middle} ${last}`)),
).map((name, index, { length }) => {
  const random = createRandom(hashSeed('person', index));
  const friend = (index + 1 + random.integer(length - 1)) % length;
  return { name, town: random.pick(TOWNS), friend };
});

export const search: Tool = localSearchTool({
  topK: 1,
  documents: PEOPLE.map(({ name, town, friend }, id) => ({
    id,
    contents: `${name}\nThe town of ${name} is ${town}, the friend of ${name} is ${PEOPLE[friend]!.name}.`,
  })),
});

/** In the same form, about somebody else. */
const randomSearch: Tool = {
  ...search,
  run: (input, context) => {
    const { name } = PEOPLE[hashSeed('random', JSON.stringify(input)) % PEOPLE.length]!;
    return search.run({ query_list: [name] }, context);
  },
};

type Lookup = {
  readonly question: string;
  readonly answer: string;
  readonly person: number;
  readonly friend: boolean;
};
type Split = 'train' | 'validation' | 'test';

/** Which split a question belongs to is decided by the person that it names. */
function lookup(split: Split, seed: number, index: number): Lookup {
  const random = createRandom(hashSeed('lookup', split, seed, index));
  const friend = index % 3 > 0;
  for (;;) {
    const person = random.integer(PEOPLE.length);
    const own = hashSeed('split', person) % 10;
    if ((own === 0 ? 'test' : own === 1 ? 'validation' : 'train') !== split) continue;
    const { name, friend: other } = PEOPLE[person]!;
    const question = `What is the town of ${friend ? 'the friend of ' : ''}${name}?`;
    return { question, answer: PEOPLE[friend ? other : person]!.town, person, friend };
  }
}

const call = (...queries: string[]) =>
  `<tool_call>{"name":"search","arguments":{"query_list":${JSON.stringify(queries)}}}</tool_call>`;
const say = (answer: string) => `The answer is ${answer}.`;

const DRILLS = 2048;

/** To copy names is what a fresh model finds hard: the first lessons are nothing else. */
function drill(seed: number, index: number) {
  const random = createRandom(hashSeed('drill', seed, index));
  const names = Array.from({ length: 3 }, () => random.pick(PEOPLE).name);
  const task = { ...lookup('train', seed, index), question: `Search for ${names.join(' and ')}.` };
  return { task, replies: [call(...names)] };
}

/** A quarter of the questions about a friend go on to the friend; some guess, and some break their call. */
function demonstration(seed: number, index: number) {
  if (index < DRILLS) return drill(seed, index);
  const task = lookup('train', hashSeed('demonstrations', seed), index);
  const random = createRandom(hashSeed('demonstration', seed, index));
  const first = PEOPLE[task.person]!;
  const second = PEOPLE[first.friend]!;
  const roll = random.next();
  if (roll < 0.07) return { task, replies: [say(random.pick(TOWNS))] };
  const broken = roll < 0.14 ? [call(first.name).replace('"]}}', '"]')] : [];
  const through = task.friend && random.next() < 0.25;
  return {
    task,
    replies: [
      ...broken,
      call(first.name),
      ...(through ? [call(second.name)] : []),
      say((through ? second : first).town),
    ],
  };
}

const found = reward<Lookup>('found', ({ task, trajectory }) =>
  trajectory.text === say(task.answer) ? 1 : 0,
);

const tasks = (split: Split, seed: number, count: number) =>
  arrayDataset(
    Array.from({ length: count }, (_, index) => lookup(split, seed, index)),
    split,
  );

export function searchTask(seed: number): Exercise<Lookup> {
  const reader = (tool: Tool) => toolLoop<Lookup>({ prompt: ({ question }) => question, tools: [tool] });
  return {
    options: {
      model: 'runs/prove-tasks/search-1/warm-start',
      runDir: 'runs/search',
      seed,
      tasks: tasks('train', seed, 480),
      validation: tasks('validation', seed, 72),
      agent: reader(search),
      rewards: [found],
      algorithm: grpo({ clip: [0.2, 0.28], old: 'behaviour' }),
      steps: 20,
      tasksPerStep: 24,
      attemptsPerTask: 8,
      limits: { turns: 4, tokensPerReply: 40, tokensPerTrajectory: 256, contextTokens: 320 },
      optimizer: { learningRate: 3e-4, beta2: 0.95, weightDecay: 0, miniBatches: 2 },
      evaluation: { every: 2, limit: 72 },
      checkpoints: { every: 0 },
    },
    demonstration: (index) => demonstration(seed, index),
    demonstrations: DRILLS + 4096,
    test: tasks('test', seed, 300),
    controls: { 'random retrieval': { agent: reader(randomSearch) } },
  };
}

export const options: TrainOptions<Lookup> = searchTask(1).options;
