/** The algebra system, in a separate thread: it takes half a second to load and has no time limits. */

import { parentPort } from 'node:worker_threads';
import { ComputeEngine, type Expression, isFunction } from '@cortex-js/compute-engine';
import { messageOf } from '../../lib/error-message.ts';
import type { Computation } from './computation.ts';
import { toLatex } from './notation.ts';

const engine = new ComputeEngine();

parentPort!.on('message', (question: Computation) => {
  engine.pushScope(); // what one question teaches the engine about a letter is not for the next
  try {
    parentPort!.postMessage({ value: compute(question) });
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

const sides = (given: Expression): [Expression, Expression] | undefined =>
  isFunction(given, 'Equal') && given.ops.length === 2 ? [given.ops[0]!, given.ops[1]!] : undefined;

const difference = (one: Expression, other: Expression) => engine.box(['Subtract', one, other]);

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
