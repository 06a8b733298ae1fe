/**
 * The words that a shell script gives to verl's trainer: `python3 -m verl.trainer.main_ppo KEY=VALUE …`. The script is
 * read, not run: variables, `${NAME:-default}`, `$(pwd)`, dates and arithmetic are understood, and bodies of functions,
 * conditions and loops are passed over. What else it would take a shell to know is an error that names the line.
 */
import { ConfigError } from '../errors.ts';
import { evaluateExpression } from '../lib/expression.ts';

export interface ScriptWords {
  /** Hydra's `--config-path` and `--config-name`. */
  readonly configPath?: string;
  readonly configName?: string;
  readonly overrides: readonly string[];
}

export interface ScriptSurroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
  /** For names of experiments that contain a date. */
  readonly now: Date;
}

const TRAINER = /\bverl\.trainer\.main_ppo\b|\bmain_ppo\.py\b/;

export function readScript(text: string, path: string, around: ScriptSurroundings): ScriptWords {
  const variables = new Map<string, string>();
  const functions = new Set<string>();
  let depth = 0;
  for (const { line, number } of logicalLines(text)) {
    const where = `${path}:${number}`;
    const shell: Shell = { variables, functions, around, where };
    const named = /^\s*(?:function\s+)?(\w+)\s*\(\)\s*\{?/.exec(line) ?? /^\s*function\s+(\w+)/.exec(line);
    if (named) functions.add(named[1]!);
    const before = depth;
    depth += opened(line);
    if (before > 0 || depth > 0 || named) continue;
    const assigned = /^\s*(?:export\s+|declare\s+-?\w*\s*)?(\w+)=(.*)$/s.exec(line);
    if (assigned && !TRAINER.test(line)) {
      variables.set(assigned[1]!, splitShell(assigned[2]!, shell).join(' '));
    } else if (TRAINER.test(line)) return wordsOf(line, shell);
  }
  throw new ConfigError(
    `${path} does not call verl.trainer.main_ppo outside of a function or condition; give its words to rollcall train yourself`,
  );
}

interface Shell {
  readonly variables: ReadonlyMap<string, string>;
  readonly functions: ReadonlySet<string>;
  readonly around: ScriptSurroundings;
  readonly where: string;
}

function wordsOf(line: string, shell: Shell): ScriptWords {
  const all = splitShell(line, shell);
  const words = all.slice(all.findIndex((word) => TRAINER.test(word)) + 1);
  const overrides: string[] = [];
  const flags: Record<string, string> = {};
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!;
    const flag = /^--?(config-path|config-name|config-dir|cp|cn)(?:=(.*))?$/s.exec(word);
    if (flag) flags[flag[1]!] = flag[2] ?? words[++at] ?? '';
    else if (/^(\d*[<>&|;]|2>&1$)/.test(word))
      break; // where its output goes
    else if (word.startsWith('--')) throw new ConfigError(`${shell.where}: ${word} is not understood here`);
    else overrides.push(word);
  }
  const configPath = flags['config-path'] ?? flags.cp ?? flags['config-dir'];
  const configName = flags['config-name'] ?? flags.cn;
  return {
    ...(configPath !== undefined && { configPath }),
    ...(configName !== undefined && { configName }),
    overrides,
  };
}

/** Lines without comments, those that end in a backslash joined; a number is that of the first. */
function logicalLines(text: string): { line: string; number: number }[] {
  const lines: { line: string; number: number }[] = [];
  let continued = false;
  for (const [at, raw] of text.split(/\r?\n/).entries()) {
    const isComment = /^\s*#/.test(raw);
    if (isComment && continued) continue; // a shell would end the command here; a reader does not mean that
    const part = isComment ? '' : raw.replace(/\s#.*$/, '');
    const isOpen = /\\\s*$/.test(part);
    const body = part.replace(/\\\s*$/, ' ');
    if (continued) lines.at(-1)!.line += body;
    else lines.push({ line: body, number: at + 1 });
    continued = isOpen;
  }
  return lines;
}

/** How many blocks a line opens more than it closes. */
function opened(line: string): number {
  const count = (pattern: RegExp) => line.match(pattern)?.length ?? 0;
  return (
    count(/(^|;|\s)(if|case|for|while|until)\s/g) -
    count(/(^|;|\s)(fi|esac|done)(?=$|;|\s)/g) +
    count(/(^|\))\s*\{\s*$/g) -
    count(/^\s*\}/g)
  );
}

/** Words as a shell splits them, variables put in. */
function splitShell(text: string, shell: Shell): string[] {
  const words: string[] = [];
  let word = '';
  let isWord = false;
  for (let at = 0; at < text.length; ) {
    const character = text[at]!;
    if (character === "'") {
      const end = closing(text, at, shell);
      word += text.slice(at + 1, end);
      isWord = true;
      at = end + 1;
    } else if (character === '"') {
      const end = closing(text, at, shell);
      word += expand(text.slice(at + 1, end).replace(/\\(["\\$`])/g, '$1'), shell);
      isWord = true;
      at = end + 1;
    } else if (/\s/.test(character)) {
      if (isWord) words.push(word);
      word = '';
      isWord = false;
      at++;
    } else if (character === '$') {
      const length = expansionLength(text, at);
      const value = expand(text.slice(at, at + length), shell);
      // Several words where a variable holds several, and none where it is empty, as in `$@`.
      const parts = value.split(/\s+/).filter((part) => part !== '');
      if (parts.length > 0) {
        words.push(...[word + parts[0], ...parts.slice(1)].slice(0, -1));
        word = parts.length > 1 ? parts.at(-1)! : word + parts[0];
        isWord = true;
      }
      at += length;
    } else {
      word += character === '\\' ? (text[++at] ?? '') : character;
      isWord = true;
      at++;
    }
  }
  if (isWord) words.push(word);
  return words;
}

function closing(text: string, at: number, { where }: Shell): number {
  const quote = text[at]!;
  for (let end = at + 1; end < text.length; end++) {
    if (text[end] === '\\' && quote === '"') end++;
    else if (text[end] === quote) return end;
  }
  throw new ConfigError(`${where}: a quote that opens with ${text.slice(at, at + 20)} is not closed`);
}

/** Of `$NAME`, `${…}`, `$(…)` or `$((…))` that begins at a place. */
function expansionLength(text: string, at: number): number {
  const close = { '{': '}', '(': ')' }[text[at + 1] ?? ''];
  if (!close) return /^\$(\w+|[@*#?])?/.exec(text.slice(at))![0].length;
  let depth = 0;
  for (let end = at + 1; end < text.length; end++) {
    if (text[end] === text[at + 1]) depth++;
    else if (text[end] === close && --depth === 0) return end + 1 - at;
  }
  return text.length - at;
}

function expand(text: string, shell: Shell): string {
  let out = '';
  for (let at = 0; at < text.length; ) {
    if (text[at] !== '$') out += text[at++];
    else {
      const length = expansionLength(text, at);
      out += valueOfExpansion(text.slice(at, at + length), shell);
      at += length;
    }
  }
  return out;
}

function valueOfExpansion(expression: string, shell: Shell): string {
  const { around, where } = shell;
  if (/^\$\(\(/.test(expression)) {
    const inner = expression
      .slice(3, -2)
      .replace(/\$?\{?([A-Za-z_]\w*)\}?/g, (_, name: string) => lookUp(name, shell));
    try {
      return String(Math.trunc(evaluateExpression(inner)));
    } catch (cause) {
      throw new ConfigError(`${where}: ${expression} is not arithmetic: ${(cause as Error).message}`, {
        cause,
      });
    }
  }
  if (expression.startsWith('$(')) {
    const command = expression.slice(2, -1).trim();
    if (command === 'pwd') return around.directory;
    const [program = ''] = command.split(/\s/);
    if (program === 'date' || shell.functions.has(program))
      return around.now.toISOString().slice(0, 16).replace(/[T:]/g, '-');
    throw new ConfigError(
      `${where}: ${expression} would have to be run; give the key it is for on the command line`,
    );
  }
  const braced = /^\$\{([^}:-]+)(?::?-(.*))?\}$/s.exec(expression);
  if (braced)
    return lookUp(braced[1]!, shell, braced[2] === undefined ? undefined : unquoted(braced[2], shell));
  const name = expression.slice(1);
  return name === '' ? '$' : lookUp(name, shell);
}

const unquoted = (text: string, shell: Shell) => expand(text.replace(/^(["'])(.*)\1$/s, '$2'), shell);

/** Arguments of the script (`$1`, `$@`) are none: `rollcall train` is given them itself. */
function lookUp(name: string, { variables, around, where }: Shell, otherwise?: string): string {
  if (/^(\d+|[@*#?])$/.test(name)) return otherwise ?? '';
  const found = variables.get(name) ?? around.environment[name] ?? otherwise;
  if (found !== undefined) return found;
  throw new ConfigError(
    `${where}: the variable ${name} is set neither in the script nor in the environment; set it: ${name}=… rollcall train …`,
  );
}
