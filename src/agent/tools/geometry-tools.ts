/** Plane geometry for problems such as Geometry3K's: formulas by name, and unknown angles. */
import { evaluateExpression } from '../../lib/expression.ts';
import type { ToolSchema } from '../../types.ts';
import { type Tool, tool } from '../tool.ts';
import { FORMULAS, type Formula } from './geometry-formulas.ts';

const names = Object.keys(FORMULAS);

export const GEOMETRY_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'geometry_calculator',
    description: `Computes lengths, areas and volumes by a named formula. Formulas and what they need: ${names
      .map((name) => `${name} (${FORMULAS[name]!.needs.join(', ')})`)
      .join('; ')}. Angles are in degrees.`,
    parameters: {
      type: 'object',
      properties: {
        formula: { type: 'string', enum: names },
        values: {
          type: 'object',
          description: 'The needed numbers, or expressions such as 3*sqrt(2), by name.',
        },
      },
      required: ['formula', 'values'],
    },
  },
};

/** A tool that computes a named formula of geometry from given values. */
export function geometryTool(schema: ToolSchema = GEOMETRY_SCHEMA): Tool {
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    pure: true,
    run: (input) => {
      const { formula, values } = input as { formula?: unknown; values?: unknown };
      const known =
        typeof formula === 'string' && Object.hasOwn(FORMULAS, formula) ? FORMULAS[formula] : undefined;
      if (!known) throw new Error(`formula is one of ${names.join(', ')}; it is ${JSON.stringify(formula)}`);
      if (typeof values !== 'object' || values === null) throw new Error('values is an object of numbers');
      const results = known.compute(read(known, values as Record<string, unknown>));
      return Object.entries(results)
        .map(([what, value]) => `${what} = ${shown(value)}`)
        .join(', ');
    },
  });
}

function read({ needs }: Formula, values: Readonly<Record<string, unknown>>): Record<string, number> {
  const unknown = Object.keys(values).filter((name) => !needs.includes(name));
  const missing = needs.filter((name) => values[name] === undefined);
  if (unknown.length + missing.length > 0) {
    throw new Error(
      `values are needed for ${needs.join(', ')}; these are given: ${Object.keys(values).join(', ')}`,
    );
  }
  return Object.fromEntries(needs.map((name) => [name, evaluateExpression(String(values[name]))]));
}

/** What the angles of each relation add up to, as an equation that is 0 where it holds. */
const RELATIONS: Readonly<Record<string, (angles: readonly number[]) => number>> = {
  triangle: (angles) => sum(angles) - 180,
  polygon: (angles) => sum(angles) - 180 * (angles.length - 2),
  supplementary: (angles) => sum(angles) - 180,
  complementary: (angles) => sum(angles) - 90,
  around_a_point: (angles) => sum(angles) - 360,
  equal: ([first, second]) => first! - second!,
  exterior: ([first, ...remote]) => first! - sum(remote),
  inscribed: ([angle, arc]) => 2 * angle! - arc!,
};

const COUNTS: Readonly<Record<string, readonly [number, number]>> = {
  triangle: [3, 3],
  polygon: [3, 100],
  equal: [2, 2],
  exterior: [3, 3],
  inscribed: [2, 2],
};

export const ANGLE_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'angle_solver',
    description:
      'Finds an unknown angle, in degrees. relation: triangle, polygon (all inner angles), supplementary, complementary, ' +
      'around_a_point, equal (two angles), exterior (the exterior angle, then the two remote ones), inscribed (the angle, ' +
      'then its arc). One letter may stand for the unknown.',
    parameters: {
      type: 'object',
      properties: {
        relation: { type: 'string', enum: Object.keys(RELATIONS) },
        angles: { type: 'array', items: { type: 'string' }, description: 'Such as ["2x+10", "x", "50"].' },
      },
      required: ['relation', 'angles'],
    },
  },
};

/** A tool that finds an angle from a named relation to others. */
export function angleTool(schema: ToolSchema = ANGLE_SCHEMA): Tool {
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    pure: true,
    coerceInput: true,
    run: (input) => {
      const { relation, angles } = input as { relation?: unknown; angles?: unknown };
      if (typeof relation !== 'string' || !Object.hasOwn(RELATIONS, relation)) {
        throw new Error(
          `relation is one of ${Object.keys(RELATIONS).join(', ')}; it is ${JSON.stringify(relation)}`,
        );
      }
      if (!Array.isArray(angles)) throw new Error('angles is a list such as ["2x+10", "x", "50"]');
      const [least, most] = COUNTS[relation] ?? [2, 100];
      if (angles.length < least || angles.length > most) {
        const range = least === most ? `${least}` : `${least} to ${most}`;
        throw new Error(`${relation} takes ${range} angles; ${angles.length} are given`);
      }
      return solveAngles(
        relation,
        angles.map((angle) => String(angle).replace(/°|\s*degrees?$/g, '')),
      );
    },
  });
}

function solveAngles(relation: string, angles: readonly string[]): string {
  const letters = [...new Set(angles.join(' ').match(/(?<![A-Za-z])[A-Za-z](?![A-Za-z])/g) ?? [])];
  if (letters.length > 1) throw new Error(`one letter may be unknown; these are: ${letters.join(', ')}`);
  const [letter = 'x'] = letters;
  const at = (value: number) => angles.map((angle) => evaluateExpression(angle, { [letter]: value }));
  const error = (value: number) => RELATIONS[relation]!(at(value));
  if (letters.length === 0) {
    return Math.abs(error(0)) < 1e-9
      ? 'the angles fit'
      : `the angles do not fit: they are off by ${shown(error(0))} degrees`;
  }
  const [start, slope] = [error(0), error(1) - error(0)];
  if (Math.abs(error(2) - (start + 2 * slope)) > 1e-6) {
    throw new Error(`the angles are not linear in ${letter}; use an equation solver`);
  }
  if (Math.abs(slope) < 1e-12) throw new Error(`the relation does not depend on ${letter}`);
  const value = -start / slope;
  return `${letter} = ${shown(value)}; the angles are ${at(value).map(shown).join(', ')}`;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const shown = (value: number) => String(Number(value.toPrecision(10)));
