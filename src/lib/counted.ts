/** A number of things: `1 segment`, `2 segments`, `2 replies`. */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;
