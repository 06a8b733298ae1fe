/** The API reference: a page for each import path, from the doc comments and declarations behind its exports. */
import { readdirSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import ts from 'typescript';
import { PAGES } from './make-pages.ts';

/** The import path of each page, and its file. */
export const ENTRIES: ReadonlyMap<string, string> = new Map([
  ['rollcall', 'src/index.ts'],
  ...readdirSync('src/exports').map((file): [string, string] => [
    `rollcall/${basename(file, '.ts')}`,
    `src/exports/${file}`,
  ]),
  ['rollcall/testing', 'testing/index.ts'],
]);

/** VitePress links in lower case only: `Tool` must not be `tool`. */
const anchor = (name: string) => `${name.toLowerCase()}${/^[A-Z]/.test(name) ? '-type' : ''}`;

export const pageOf = (path: string) => path.replace('rollcall/', '');

interface Name {
  readonly name: string;
  readonly isValue: boolean;
  readonly comment: string;
  readonly code: string;
  readonly mentions: ReadonlySet<string>;
}

/** Prose of a comment: angle brackets and braces outside code are text, not markup. */
const prose = (comment: string) =>
  comment
    .split(/(`[^`]*`)/)
    .map((part, at) => (at % 2 ? part : part.replace(/[<{]/g, (mark) => `&#${mark.charCodeAt(0)};`)))
    .join('');

const MODIFIERS = /^(?:export |declare |async |abstract )+/;

/** The text of a declaration up to its body, with the comments inside it. */
function declared(node: ts.Node, body: ts.Node | undefined): string {
  const text = node.getSourceFile().text.slice(node.getStart(), body?.getStart() ?? node.getEnd());
  return text.replace(MODIFIERS, '').trimEnd();
}

function functionText(node: ts.SignatureDeclaration, checker: ts.TypeChecker): string {
  const text = declared(node, 'body' in node ? node.body : undefined);
  if (node.type !== undefined || ts.isConstructorDeclaration(node)) return text;
  const signature = checker.getSignatureFromDeclaration(node)!;
  return `${text}: ${checker.typeToString(checker.getReturnTypeOfSignature(signature), node)}`;
}

/** A class without bodies and private members. */
function classText(node: ts.ClassDeclaration, checker: ts.TypeChecker): string {
  const isOpen = (member: ts.ClassElement) =>
    !(member.name && ts.isPrivateIdentifier(member.name)) &&
    !(ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected));
  const { text } = node.getSourceFile();
  const members = node.members.filter(isOpen).map((member) => {
    const comment = ts
      .getJSDocCommentsAndTags(member)
      .map((one) => `  ${text.slice(one.pos, one.end)}\n`)
      .join('');
    const code = ts.isFunctionLike(member)
      ? functionText(member as ts.SignatureDeclaration, checker)
      : `${member.name?.getText()}: ${checker.typeToString(checker.getTypeAtLocation(member))}`;
    return `${comment}  ${code};`;
  });
  const head = text.slice(node.getStart(), node.members.pos).replace(MODIFIERS, '').trimEnd();
  return `${head}\n${members.join('\n')}\n}`;
}

function codeOf(name: string, symbol: ts.Symbol, checker: ts.TypeChecker): string {
  const declarations = symbol.declarations ?? [];
  const overloads = declarations.filter(ts.isFunctionDeclaration);
  if (overloads.length) {
    const shown = overloads.length > 1 ? overloads.filter(({ body }) => body === undefined) : overloads;
    return shown.map((one) => functionText(one, checker)).join('\n');
  }
  return declarations
    .map((node) => {
      if (ts.isClassDeclaration(node)) return classText(node, checker);
      if (ts.isSourceFile(node)) {
        const names = checker.getExportsOfModule(symbol).map((one) => one.name);
        return `${name}: { ${names.join(', ')} }`;
      }
      if (!ts.isVariableDeclaration(node)) return declared(node, undefined);
      return `const ${name}: ${node.type?.getText() ?? checker.typeToString(checker.getTypeAtLocation(node), node)}`;
    })
    .join('\n');
}

const VALUES = ts.SymbolFlags.Value | ts.SymbolFlags.ValueModule;

function namesOf(entry: ts.SourceFile, checker: ts.TypeChecker): Name[] {
  return checker.getExportsOfModule(checker.getSymbolAtLocation(entry)!).map((one) => {
    const symbol = one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one;
    const code = codeOf(one.name, symbol, checker);
    return {
      name: one.name,
      isValue: (symbol.flags & VALUES) !== 0,
      comment: prose(ts.displayPartsToString(symbol.getDocumentationComment(checker)).trim()),
      code,
      mentions: new Set(code.match(/\b[A-Z]\w+/g)),
    };
  });
}

/** The comment that opens an entry. */
const purposeOf = (file: ts.SourceFile) =>
  /\/\*\*([\s\S]*?)\*\//
    .exec(file.text)?.[1]
    ?.replace(/^\s*\* ?/gm, '')
    .trim()
    .replace(/^`[^`]*`: (.)/, (_, first: string) => first.toUpperCase()) ?? '';

/** Writes every page of the reference. */
export async function makeApiPages(): Promise<void> {
  const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, '.');
  const program = ts.createProgram(
    [...ENTRIES.values()].map((file) => resolve(file)),
    options,
  );
  const checker = program.getTypeChecker();
  const entries = [...ENTRIES].map(([path, file]) => {
    const source = program.getSourceFile(resolve(file))!;
    return { path, purpose: purposeOf(source), names: namesOf(source, checker) };
  });
  const homes = new Map<string, string>();
  for (const { path, names } of entries) {
    for (const { name } of names)
      if (!homes.has(name)) homes.set(name, `/api/${pageOf(path)}.md#${anchor(name)}`);
  }
  await mkdir(join(PAGES, 'api'), { recursive: true });
  for (const { path, purpose, names } of entries) {
    const ordered = [...names].sort(
      (a, b) => Number(b.isValue) - Number(a.isValue) || a.name.localeCompare(b.name),
    );
    const sections = ordered.map(({ name, comment, code, mentions }) => {
      const others = [...mentions].filter((other) => other !== name && homes.has(other));
      const links = others.map((other) => `[${other}](${homes.get(other)})`).join(' · ');
      return `## ${name} {#${anchor(name)}}\n\n${comment}\n\n\`\`\`ts\n${code}\n\`\`\`\n${links && `\n${links}\n`}`;
    });
    const text = `# ${path}\n\n${prose(purpose)}\n\n${sections.join('\n')}`;
    await writeFile(join(PAGES, 'api', `${pageOf(path)}.md`), text);
  }
  const list = entries.map(
    ({ path, purpose, names }) =>
      `| [${path}](/api/${pageOf(path)}.md) | ${prose(
        purpose
          .replace(/^`[^`]*`: /, '')
          .replace(/\s+/g, ' ')
          .replace(/(?<=\.) .*/, ''),
      )} | ${names.length} |`,
  );
  await writeFile(
    join(PAGES, 'api/index.md'),
    `# API\n\nEvery name that can be imported, by import path. The texts are the comments of the source.\n\n| import from | what | names |\n| --- | --- | --- |\n${list.join('\n')}\n`,
  );
}
