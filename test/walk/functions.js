// Finds functions by name in a module: `createBatch`, `Run.update`, `Conversation.#prompt`, `samplerOver.next`.
// JavaScript, because module hooks import it in a thread without a loader.
import ts from 'typescript';

const isFunction = (node) =>
  (ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isConstructorDeclaration(node) ||
    ts.isArrowFunction(node) ||
    ts.isFunctionExpression(node)) &&
  node.body !== undefined;

/** The name that a declaration gives to what is in it. */
function nameOf(node) {
  if (ts.isConstructorDeclaration(node)) return 'constructor';
  if (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) return undefined; // its variable or property has it
  const isNamed =
    ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isVariableDeclaration(node) ||
    ts.isPropertyAssignment(node) ||
    ts.isPropertyDeclaration(node);
  return isNamed && node.name ? node.name.getText() : undefined;
}

/** Every function of a source: its path of names, its line from 1, and its body. */
export function functionsOf(source) {
  const file = ts.createSourceFile('module.ts', source, ts.ScriptTarget.Latest, true);
  const found = [];
  const visit = (node, path) => {
    const name = nameOf(node);
    const here = name === undefined ? path : [...path, name];
    if (isFunction(node) && here.length > 0) {
      const holder = name === undefined ? node.parent : node;
      const line = file.getLineAndCharacterOfPosition(holder.getStart()).line + 1;
      found.push({ name: here.join('.'), line, body: node.body });
    }
    ts.forEachChild(node, (child) => visit(child, here));
  };
  visit(file, []);
  return found;
}

/** The function that is called so, by its last names; undefined if there is none. */
export const findFunction = (functions, name) =>
  functions.find((one) => one.name === name || one.name.endsWith(`.${name}`));

/** The source with a call of `globalThis.enter(id)` where each named function begins. Lines stay where they are. */
export function withEntries(source, names, idOf) {
  const functions = functionsOf(source);
  const edits = names.map((name) => {
    const { body } = findFunction(functions, name);
    const call = `globalThis.enter?.(${JSON.stringify(idOf(name))})`;
    return ts.isBlock(body)
      ? [[body.getStart() + 1, `${call};`]]
      : [
          [body.getStart(), `(${call},`],
          [body.getEnd(), ')'],
        ];
  });
  let changed = source;
  for (const [at, text] of edits.flat().sort(([one], [other]) => other - one)) {
    changed = changed.slice(0, at) + text + changed.slice(at);
  }
  return changed;
}
