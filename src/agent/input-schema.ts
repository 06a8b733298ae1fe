/**
 * A tool's input: any Standard Schema that can give its JSON schema (zod, valibot, arktype …) or a plain JSON
 * schema. The JSON schema goes into the prompt; the check's words go to the model.
 */

import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { ConfigError } from '../errors.ts';
import { BoundedRegExp } from '../lib/bounded-regexp.ts';
import { messageOf } from '../lib/error-message.ts';
import type { JsonSchema } from '../types.ts';

/** The part of the Standard Schema interface (standardschema.dev) that tools use. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly jsonSchema?: { readonly input: (options: { target: 'draft-2020-12' }) => JsonSchema };
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What describes a tool's input: a Standard Schema (zod and others) or a JSON Schema. */
export type InputSchema = StandardSchema | JsonSchema;

/** What `run` is given: the schema's output, or any object for a plain JSON schema. */
export type InputOf<Schema> = Schema extends StandardSchema<infer Output> ? Output : Record<string, unknown>;

export type Checked = { readonly input: unknown } | { readonly wrong: readonly string[] };

export interface CompiledSchema {
  readonly json: JsonSchema;
  check(value: unknown): Promise<Checked>;
}

/** Throws a ConfigError when the schema cannot be shown to a model or is not a schema. */
export function compileSchema(schema: InputSchema, owner: string, { coerce = false } = {}): CompiledSchema {
  if (!isStandardSchema(schema)) return fromJsonSchema(schema, owner, coerce ? coercing : checking);
  if (coerce)
    throw new ConfigError(`${owner}: coerceInput is for plain JSON schemas; let the schema itself coerce`);
  return fromStandardSchema(schema, owner);
}

function isStandardSchema(schema: InputSchema): schema is StandardSchema {
  return typeof (schema as { '~standard'?: unknown })['~standard'] === 'object';
}

function fromStandardSchema(schema: StandardSchema, owner: string): CompiledSchema {
  const standard = schema['~standard'];
  if (!standard.jsonSchema) {
    throw new ConfigError(
      `${owner}: its input is a ${standard.vendor} schema that gives no JSON schema, so it cannot be shown to the model; ` +
        `use a library with Standard JSON Schema (zod 4.2 or newer), or a plain JSON schema`,
    );
  }
  return {
    json: forPrompt(standard.jsonSchema.input({ target: 'draft-2020-12' })),
    check: async (value) => {
      const result = await standard.validate(value);
      if (!result.issues) return { input: result.value };
      return { wrong: result.issues.map(({ message, path = [] }) => at(path.map(keyOf), message)) };
    },
  };
}

/** Patterns of a schema are matched under a time limit. `code` is for schemas that are written out as programs: none are. */
const regExp = Object.assign((source: string, flags: string) => new BoundedRegExp(source, flags), {
  code: 'new RegExp',
});
const OPTIONS = {
  allErrors: true,
  strict: false,
  useDefaults: true,
  validateFormats: false,
  code: { regExp },
};
const checking = new Ajv2020(OPTIONS);
const coercing = new Ajv2020({ ...OPTIONS, coerceTypes: true });

function fromJsonSchema(schema: JsonSchema, owner: string, ajv: Ajv2020): CompiledSchema {
  let validate: ValidateFunction;
  try {
    validate = ajv.compile(schema);
  } catch (cause) {
    const why = messageOf(cause);
    throw new ConfigError(`${owner}: its input is not a valid JSON schema: ${why}`, { cause });
  }
  return {
    json: forPrompt(schema),
    check: async (value) => {
      const input = structuredClone(value); // defaults are filled in place
      try {
        return validate(input) ? { input } : { wrong: (validate.errors ?? []).map(inWords) };
      } catch (error) {
        return { wrong: [messageOf(error)] };
      }
    },
  };
}

function inWords({ instancePath, message, params, keyword }: ErrorObject): string {
  const path = instancePath.split('/').slice(1);
  if (keyword === 'additionalProperties') return at(path, `unknown key '${params.additionalProperty}'`);
  if (keyword === 'enum') return at(path, `must be one of ${JSON.stringify(params.allowedValues)}`);
  return at(path, message ?? keyword);
}

const at = (path: readonly string[], message: string) =>
  path.length > 0 ? `${path.join('.')}: ${message}` : message;

const keyOf = (part: PropertyKey | { readonly key: PropertyKey }) =>
  String(typeof part === 'object' ? part.key : part);

/** `$schema` and the bounds of a safe integer say nothing to a model and cost tokens. */
function forPrompt(schema: JsonSchema): JsonSchema {
  const clean = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(clean);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key, inner]) => !(Math.abs(Number(inner)) === Number.MAX_SAFE_INTEGER && /imum$/.test(key)))
        .map(([key, inner]) => [key, clean(inner)]),
    );
  };
  const { $schema: _, ...rest } = schema;
  return clean(rest) as JsonSchema;
}
