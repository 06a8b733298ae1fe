/** The figures of docs/algorithms.md: accuracy over rollout tokens, and final accuracy by lag and learning rate. */

export interface Line {
  readonly name: string;
  readonly colour: string;
  /** One list of points a seed. */
  readonly seeds: readonly (readonly { readonly tokens: number; readonly accuracy: number }[])[];
}

const FRAME = { left: 56, top: 40, width: 520, height: 300, legend: 200 };
const FONT = 'font-family="sans-serif" font-size="12" fill="#333"';

const escapeText = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

function page(title: string, width: number, height: number, parts: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ${FONT}>`,
    '<rect width="100%" height="100%" fill="#fff"/>',
    `<text x="16" y="22" font-size="15">${escapeText(title)}</text>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

/** Validation accuracy over the tokens rolled out so far; the first seed in full, the others fainter. */
export function accuracyOverTokens(title: string, lines: readonly Line[]): string {
  const all = lines.flatMap(({ seeds }) => seeds.flat());
  const last = Math.max(1, ...all.map(({ tokens }) => tokens));
  const x = (tokens: number) => (FRAME.left + (tokens / last) * FRAME.width).toFixed(1);
  const y = (accuracy: number) => (FRAME.top + (1 - accuracy) * FRAME.height).toFixed(1);
  const [bottom, right] = [FRAME.top + FRAME.height, FRAME.left + FRAME.width];
  const rows = [0, 0.2, 0.4, 0.6, 0.8, 1].map(
    (value) =>
      `<line x1="${FRAME.left}" x2="${right}" y1="${y(value)}" y2="${y(value)}" stroke="#ddd"/>` +
      `<text x="${FRAME.left - 8}" y="${Number(y(value)) + 4}" text-anchor="end">${Math.round(100 * value)} %</text>`,
  );
  const ticks = [0, 0.25, 0.5, 0.75, 1].map(
    (share) =>
      `<text x="${x(share * last)}" y="${bottom + 18}" text-anchor="middle">${Math.round((share * last) / 1000)}k</text>`,
  );
  const drawn = lines.map(({ name, colour, seeds }, index) => {
    const curves = seeds.map((points, seed) => {
      const path = points.map(({ tokens, accuracy }) => `${x(tokens)},${y(accuracy)}`).join(' ');
      return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2" opacity="${seed === 0 ? 1 : 0.45}"/>`;
    });
    const top = FRAME.top + 12 + 20 * index;
    return (
      `${curves.join('')}<rect x="${right + 16}" y="${top - 10}" width="12" height="12" fill="${colour}"/>` +
      `<text x="${right + 34}" y="${top}">${escapeText(name)}</text>`
    );
  });
  return page(title, right + FRAME.legend, bottom + 48, [
    ...rows,
    ...ticks,
    `<text x="${right}" y="${bottom + 36}" text-anchor="end">rollout tokens (validation problems, greedy)</text>`,
    ...drawn,
  ]);
}

export interface Cell {
  readonly row: string;
  readonly column: string;
  readonly value: number;
}

/** Panels side by side: one value a cell, red at 0, green at 1. */
export function heatPanels(
  title: string,
  panels: readonly { readonly name: string; readonly cells: readonly Cell[] }[],
  axes: { readonly rows: string; readonly columns: string },
): string {
  const [wide, high, gap] = [84, 44, 40];
  const names = (key: 'row' | 'column') => [
    ...new Set(panels.flatMap(({ cells }) => cells.map((cell) => cell[key]))),
  ];
  const [rows, columns] = [names('row'), names('column')];
  const panelWidth = columns.length * wide;
  const drawn = panels.flatMap(({ name, cells }, panel) => {
    const left = 96 + panel * (panelWidth + gap);
    const boxes = cells.map(({ row, column, value }) => {
      const [x, y] = [left + columns.indexOf(column) * wide, 64 + rows.indexOf(row) * high];
      return (
        `<rect x="${x}" y="${y}" width="${wide - 2}" height="${high - 2}" fill="hsl(${Math.round(120 * value)} 55% 72%)"/>` +
        `<text x="${x + wide / 2}" y="${y + high / 2 + 4}" text-anchor="middle">${(100 * value).toFixed(0)} %</text>`
      );
    });
    const heads = columns.map(
      (column, index) =>
        `<text x="${left + (index + 0.5) * wide}" y="${64 + rows.length * high + 16}" text-anchor="middle">${column}</text>`,
    );
    return [`<text x="${left}" y="54" font-weight="bold">${escapeText(name)}</text>`, ...boxes, ...heads];
  });
  const sides = rows.map(
    (row, index) =>
      `<text x="88" y="${64 + (index + 0.5) * high + 4}" text-anchor="end">${axes.rows} ${row}</text>`,
  );
  const width = 96 + panels.length * (panelWidth + gap);
  const height = 64 + rows.length * high + 44;
  return page(title, width, height, [
    ...drawn,
    ...sides,
    `<text x="${width - gap}" y="${height - 10}" text-anchor="end">${escapeText(axes.columns)}</text>`,
  ]);
}
