/** The algebra system, in a thread of its own: it takes half a second to load and has no time limits. */

import { parentPort } from 'node:worker_threads';
import { ComputeEngine, type Expression, isFunction, isSymbol } from '@cortex-js/compute-engine';
import { messageOf } from '../../lib/error-message.ts';
import { createRandom } from '../../lib/random.ts';
import { toLatex } from './notation.ts';
import type { Computation, Question } from './symbolic.ts';

const engine = new ComputeEngine();

parentPort!.on('message', (question: Question) => {
  engine.pushScope(); // what one question teaches the engine about a letter is not for the next
  try {
    const value = question.kind === 'same' ? isSame(question.answer, question.truth) : compute(question);
    parentPort!.postMessage({ value });
  } catch (cause) {
    parentPort!.postMessage({ error: messageOf(cause) });
  } finally {
    engine.popScope();
  }
});
parentPort!.postMessage({ ready: true });

function read(text: string): Expression {
  const parsed = engine.parse(toLatex(text));
  if (parsed.isValid) return parsed;
  throw new Error(`${JSON.stringify(text)} cannot be read as mathematics: ${parsed.toString()}`);
}

function isSame(answer: string, truth: string): boolean {
  const [given, right] = [read(answer), read(truth)];
  const [left, other] = [sides(given), sides(right)];
  if (left && other) {
    const [one, two] = [difference(...left), difference(...other)];
    return areEqual(one, two) || areEqual(one, engine.box(['Negate', two]));
  }
  // `x = 3` answers a question whose truth is `3`.
  if (left) return isSymbol(left[0]) && areEqual(left[1], right);
  if (other) return isSymbol(other[0]) && areEqual(given, other[1]);
  return areEqual(given, right);
}

const sides = (given: Expression): [Expression, Expression] | undefined =>
  isFunction(given, 'Equal') && given.ops.length === 2 ? [given.ops[0]!, given.ops[1]!] : undefined;

const difference = (one: Expression, other: Expression) => engine.box(['Subtract', one, other]);

function areEqual(one: Expression, other: Expression): boolean {
  const known = one.isEqual(other);
  if (known !== undefined) return known;
  if (difference(one, other).simplify().is(0)) return true;
  return agreeAtPoints(one, other);
}

const POINTS = 12;
const ENOUGH = 4;

/** What the rules do not decide (the engine would sample too, at points that differ from run to run): two expressions that agree at points of both signs are taken for the same. */
function agreeAtPoints(one: Expression, other: Expression): boolean {
  const names = [...new Set([...one.unknowns, ...other.unknowns])];
  if (names.length === 0 || names.length > 6) return false;
  const random = createRandom(1);
  let agreed = 0;
  for (let point = 0; point < POINTS; point++) {
    const at = Object.fromEntries(names.map((name) => [name, 6 * random.next() - 3]));
    const [a, b] = [valueAt(one, at), valueAt(other, at)];
    if (a === undefined && b === undefined) continue;
    if (a === undefined || b === undefined || Math.abs(a - b) > 1e-9 * Math.max(1, Math.abs(a))) return false;
    agreed++;
  }
  return agreed >= ENOUGH;
}

function valueAt(expression: Expression, at: Readonly<Record<string, number>>): number | undefined {
  const { re, im } = expression.subs(at).N();
  return Number.isFinite(re) && im === 0 ? re : undefined;
}

function compute({ operation, expression, variable, from, to }: Computation): string {
  const given = read(expression);
  switch (operation) {
    case 'simplify':
      return shown(given.simplify());
    case 'expand':
      return shown(engine.box(['Expand', given]).evaluate());
    case 'factor':
      return shown(engine.box(['Factor', given]).evaluate());
    case 'evaluate':
      return shown(given.evaluate());
    case 'approximate':
      return shown(given.N());
    case 'differentiate':
      return shown(engine.box(['D', given, variable]).evaluate());
    case 'integrate':
      return integrate(given, variable, from, to);
    case 'solve':
      return solve(given, variable);
  }
}

function integrate(given: Expression, variable: string, from?: string, to?: string): string {
  if ((from === undefined) !== (to === undefined)) throw new Error('an integral has both limits or none');
  const over = from === undefined ? variable : engine.box(['Limits', variable, read(from), read(to!)]);
  const found = engine.box(['Integrate', given, over]).evaluate();
  if (found.has('Integrate')) throw new Error('no closed form was found');
  return from === undefined ? `${shown(found)} + C` : shown(found);
}

function solve(given: Expression, variable: string): string {
  const equation = sides(given);
  const roots = (equation ? difference(...equation) : given).solve(variable) as readonly Expression[] | null;
  if (!roots?.length) throw new Error(`no solution for ${variable} was found`);
  return roots.map((root) => `${variable} = ${shown(root)}`).join(', ');
}

function shown(result: Expression): string {
  if (!result.isValid) throw new Error(result.toString());
  return result.toString();
}
