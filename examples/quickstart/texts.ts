import { DISTRACTORS, FAMILIES, PEOPLE, THINGS } from './families.ts';
import { calculator } from './solver.ts';

/** What the dialogues say besides the problems: roles, drills, calls, answers, the calculator's errors. */
const PHRASES = [
  `system\nTools:\n${calculator.name}: ${calculator.schema.function.description}`,
  'user\nassistant\ntool\n',
  'What is 1 + 2 - 3 * 4 / 5?',
  'The answer is 6.',
  '{"name":"calculator","arguments":{"expression":"7*8"}}',
  // What the model reads about a broken call; the parts that vary are written in characters.
  "the tool call is not valid JSON: Expected ',' or '}' after property value in JSON at position 9",
  'the tool call is not closed: </tool_call> is missing',
  "Error executing tool 'calculator': not one operation on two numbers",
];

/** Everything that is said in the quick start, for the words of its tokenizer. */
export const TEXTS: readonly string[] = [
  ...[...FAMILIES.flatMap((family) => family.sentences.flat()), ...DISTRACTORS]
    .map((sentence) => sentence.replace(/\{\w\}/g, '1'))
    // A sentence may open the text, or follow another after a space.
    .flatMap((sentence) => [sentence, ` ${sentence}`]),
  ...PEOPLE.flatMap((name) => [name, ` ${name}`]),
  ...THINGS.map((thing) => ` ${thing}`),
  ...PHRASES,
];
