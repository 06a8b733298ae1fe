import type { SchemaElement } from 'hyparquet';
import { DatasetError } from '../errors.ts';

/** What a parquet column holds. pandas and pyarrow read it back as the same thing. */
export type ColumnType =
  | 'null'
  | 'string'
  | 'integer'
  | 'number'
  | 'boolean'
  | 'bytes'
  | { readonly list: ColumnType }
  | { readonly struct: Readonly<Record<string, ColumnType>> };

const kindOf = (type: ColumnType): string =>
  typeof type === 'string' ? type : 'list' in type ? 'list' : 'struct';

/** The type that a value needs. An absent value needs none. */
function typeOf(value: unknown): ColumnType {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'boolean';
  if (typeof value === 'bigint') return 'integer';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : 'number';
  if (value instanceof Uint8Array) return 'bytes';
  if (Array.isArray(value)) return { list: value.map(typeOf).reduce(widen, 'null') };
  if (typeof value === 'object') {
    return {
      struct: Object.fromEntries(Object.entries(value).map(([name, field]) => [name, typeOf(field)])),
    };
  }
  throw new Error(`a ${typeof value} cannot be written`);
}

/** The narrowest type that holds both; throws where there is none. */
function widen(one: ColumnType, other: ColumnType): ColumnType {
  if (one === 'null') return other;
  if (other === 'null') return one;
  if (typeof one === 'object' && typeof other === 'object') {
    if ('list' in one && 'list' in other) return { list: widen(one.list, other.list) };
    if ('struct' in one && 'struct' in other) {
      const struct: Record<string, ColumnType> = { ...one.struct };
      for (const [name, type] of Object.entries(other.struct))
        struct[name] = widen(struct[name] ?? 'null', type);
      return { struct };
    }
  }
  if (one === other) return one;
  const kinds = [kindOf(one), kindOf(other)].sort();
  if (kinds[0] === 'integer' && kinds[1] === 'number') return 'number';
  throw new Error(`holds ${kinds[0]} in one row and ${kinds[1]} in another; a column has one type`);
}

export type Columns = Readonly<Record<string, ColumnType>>;

/** Column types that hold every given row. */
export function columnsOf(rows: readonly Readonly<Record<string, unknown>>[], firstRow = 0): Columns {
  const columns: Record<string, ColumnType> = {};
  rows.forEach((row, at) => {
    for (const [name, value] of Object.entries(row)) {
      try {
        columns[name] = widen(columns[name] ?? 'null', typeOf(value));
      } catch (cause) {
        throw new DatasetError(`row ${firstRow + at}, column ${name}: ${(cause as Error).message}`, {
          cause,
        });
      }
    }
  });
  return columns;
}

/** Parquet has no struct without fields and no type for "never anything": such columns are left out. */
export function isEmpty(type: ColumnType): boolean {
  if (typeof type === 'string') return type === 'null';
  if ('list' in type) return false;
  return Object.values(type.struct).every(isEmpty);
}

/** A parquet schema in the three-level list form that Arrow writes. */
export function schemaOf(columns: Columns): SchemaElement[] {
  const kept = Object.entries(columns).filter(([, type]) => !isEmpty(type));
  return [
    { name: 'schema', num_children: kept.length },
    ...kept.flatMap(([name, type]) => elementsOf(name, type)),
  ];
}

function elementsOf(name: string, type: ColumnType): SchemaElement[] {
  const repetition_type = 'OPTIONAL';
  if (typeof type === 'object' && 'list' in type) {
    return [
      { name, repetition_type, num_children: 1, converted_type: 'LIST', logical_type: { type: 'LIST' } },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      ...elementsOf('element', isEmpty(type.list) ? 'string' : type.list),
    ];
  }
  if (typeof type === 'object') {
    const kept = Object.entries(type.struct).filter(([, field]) => !isEmpty(field));
    return [
      { name, repetition_type, num_children: kept.length },
      ...kept.flatMap(([field, fieldType]) => elementsOf(field, fieldType)),
    ];
  }
  if (type === 'string') {
    return [
      { name, repetition_type, type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
    ];
  }
  const physical = {
    integer: 'INT64',
    number: 'DOUBLE',
    boolean: 'BOOLEAN',
    bytes: 'BYTE_ARRAY',
    null: 'BYTE_ARRAY',
  };
  return [{ name, repetition_type, type: physical[type] as NonNullable<SchemaElement['type']> }];
}

/** A value in the form that the parquet writer needs for its column. Throws where the column cannot hold it. */
export function fitValue(value: unknown, type: ColumnType): unknown {
  if (value === null || value === undefined) return undefined;
  if (typeof type === 'object' && 'list' in type && Array.isArray(value)) {
    return value.map((item) => fitValue(item, type.list));
  }
  if (typeof type === 'object' && 'struct' in type && kindOf(typeOf(value)) === 'struct') {
    const fields = value as Record<string, unknown>;
    const known: Record<string, unknown> = {};
    for (const name of Object.keys(fields)) {
      const field = type.struct[name];
      const given = fields[name];
      if ((!field || isEmpty(field)) && given !== null && given !== undefined && !isEmpty(typeOf(given))) {
        throw new Error(`holds the field ${name}, which no earlier row has`);
      }
      if (field && !isEmpty(field)) known[name] = fitValue(given, field);
    }
    return known;
  }
  const needed = kindOf(typeOf(value));
  if (type === 'integer' && needed === 'integer') return BigInt(value as number | bigint);
  if (type === 'number' && (needed === 'number' || needed === 'integer')) return Number(value);
  if (type === needed) return value;
  throw new Error(`holds ${needed}, but is a column of ${kindOf(type)}`);
}
