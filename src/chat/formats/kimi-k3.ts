import {
  type Block,
  malformed,
  type Piece,
  readArguments,
  readJson,
  reasoning,
  type ToolFormat,
  words,
} from './grammar.ts';

const [OPEN, CLOSE, SEP] = ['<|open|>', '<|close|>', '<|sep|>'];
const ARGUMENT =
  /<\|open\|>(argument|json)\b((?:\s*\w+="[^"]*")*)\s*<\|sep\|>([\s\S]*?)<\|close\|>\1<\|sep\|>/g;

/** `tool="add" index="1"`, with `&quot;` and `&amp;` in the values. */
function attributes(text: string): ReadonlyMap<string, string> {
  const plain = (value: string) => value.replaceAll('&quot;', '"').replaceAll('&amp;', '&');
  return new Map([...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key!, plain(value!)]));
}

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];

/** Attributes that mean nothing to us, so that no word of a reply is lost. */
function strange(
  given: ReadonlyMap<string, string>,
  known: Readonly<Record<string, (value: string) => boolean>>,
) {
  return [...given]
    .filter(([key, value]) => known[key]?.(value) !== true)
    .map(([key, value]) =>
      malformed(`the tool call has an attribute of no meaning: ${key}`, `${key}="${value}"`),
    );
}

const CALL_ATTRIBUTES = { tool: () => true, index: (value: string) => /^\d*$/.test(value) };
const ARGUMENT_ATTRIBUTES = { key: () => true, type: (value: string) => TYPES.includes(value) };

function readValue(text: string, type: string): unknown {
  if (type === 'string') return text;
  const parsed = readJson(text);
  return 'value' in parsed ? parsed.value : text;
}

function readCall(body: string, closed: boolean): Piece[] {
  const source = body.trim();
  const head = body.indexOf(SEP);
  const named = /^\s*(?:\w+="[^"]*"\s*)*$/.test(body.slice(0, head)) ? body.slice(0, head) : '';
  const said = attributes(named);
  const name = said.get('tool');
  if (head < 0 || !name) return [malformed('the tool call names no tool', source)];
  if (!closed) return [malformed(`the call of ${name} is not closed: ${CLOSE}call${SEP} is missing`, source)];
  const rest = body.slice(head + SEP.length);
  const given: Record<string, unknown> = {};
  const problems = strange(said, CALL_ATTRIBUTES);
  const around: string[] = [];
  let at = 0;
  for (const argument of rest.matchAll(ARGUMENT)) {
    around.push(rest.slice(at, argument.index));
    at = argument.index + argument[0].length;
    const [, kind, head, text] = argument as unknown as [string, string, string, string];
    const described = attributes(head);
    problems.push(...strange(described, ARGUMENT_ATTRIBUTES));
    if (kind === 'json') {
      const whole = readArguments(text.trim());
      if (!whole) return [malformed(`the arguments of ${name} are not a JSON object`, source)];
      Object.assign(given, whole);
      continue;
    }
    const key = described.get('key') ?? '';
    if (Object.hasOwn(given, key)) return [malformed(`the argument ${key} is given twice`, source)];
    given[key] = readValue(text, described.get('type') ?? 'string');
  }
  around.push(rest.slice(at));
  if (around.some((text) => text.includes(OPEN)))
    return [malformed(`an argument of ${name} is not closed: ${CLOSE}argument${SEP} is missing`, source)];
  return [{ kind: 'call', call: { name, arguments: given } }, ...problems, ...words(around.join(''))];
}

const call: Block = {
  open: `${OPEN}call`,
  close: [`${CLOSE}call${SEP}`],
  until: [`${OPEN}call`],
  read: (body, { closed }) => readCall(body, closed),
};

const channel = (name: string) => [`${OPEN}${name}${SEP}`, `${CLOSE}${name}${SEP}`];

/**
 * Kimi K3: channels between tokens, and each argument says its type.
 *
 *   <|open|>tools<|sep|><|open|>call tool="add" index="1"<|sep|>
 *   <|open|>argument key="a" type="number"<|sep|>1<|close|>argument<|sep|>
 *   <|close|>call<|sep|><|close|>tools<|sep|>
 */
export const kimiK3: ToolFormat = {
  name: 'kimi_k3',
  stopTokens: ['<|end_of_msg|>'],
  blocks: [reasoning(`${OPEN}think${SEP}`, `${CLOSE}think${SEP}`), call],
  ignored: [...channel('response'), ...channel('tools'), `${CLOSE}message${SEP}`, '<|end_of_msg|>'],
};
