import type { CurvePoint } from './report.ts';

export interface Curve {
  readonly name: string;
  readonly colour: string;
  readonly points: readonly CurvePoint[];
}

const FRAME = { left: 56, top: 40, width: 620, height: 300 };

/** Curves of one or several runs: validation accuracy as lines, rewards in training as dots. */
export function curveSvg(
  title: string,
  curves: readonly Curve[],
  note = 'lines: validation problems, greedy; dots: attempts in training',
): string {
  const last = Math.max(1, ...curves.flatMap(({ points }) => points.map(({ step }) => step)));
  const x = (step: number) => (FRAME.left + (step / last) * FRAME.width).toFixed(1);
  const y = (value: number) => (FRAME.top + (1 - value) * FRAME.height).toFixed(1);
  const bottom = FRAME.top + FRAME.height;
  const right = FRAME.left + FRAME.width;
  const rows = [0, 0.2, 0.4, 0.6, 0.8, 1].map(
    (value) =>
      `<line x1="${FRAME.left}" x2="${right}" y1="${y(value)}" y2="${y(value)}" stroke="#ddd"/>` +
      `<text x="${FRAME.left - 8}" y="${Number(y(value)) + 4}" text-anchor="end">${Math.round(100 * value)} %</text>`,
  );
  const every = Math.max(1, Math.round(last / 6 / 5) * 5);
  const steps = Array.from({ length: Math.floor(last / every) + 1 }, (_, index) => index * every).map(
    (step) => `<text x="${x(step)}" y="${bottom + 18}" text-anchor="middle">${step}</text>`,
  );
  const drawn = curves.map(({ name, colour, points }, index) => {
    const dots = points
      .filter(({ training }) => training !== undefined)
      .map(
        ({ step, training }) =>
          `<circle cx="${x(step)}" cy="${y(training!)}" r="2" fill="${colour}" opacity="0.4"/>`,
      );
    const line = points
      .filter(({ validation }) => validation !== undefined)
      .map(({ step, validation }) => `${x(step)},${y(validation!)}`)
      .join(' ');
    const [row, place] = [Math.floor(index / 4), index % 4];
    const below = Math.floor((curves.length - 1) / 4) - row;
    const [legend, base] = [FRAME.left + 12 + place * 150, bottom - 12 - 18 * below];
    return (
      `${dots.join('')}<polyline points="${line}" fill="none" stroke="${colour}" stroke-width="2"/>` +
      `<rect x="${legend}" y="${base - 10}" width="12" height="12" fill="${colour}"/>` +
      `<text x="${legend + 18}" y="${base}">${escapeText(name)}</text>`
    );
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${right + 24} ${bottom + 48}" font-family="sans-serif" font-size="12" fill="#333">`,
    '<rect width="100%" height="100%" fill="#fff"/>',
    `<text x="${FRAME.left}" y="22" font-size="15">${escapeText(title)}</text>`,
    ...rows,
    ...steps,
    `<text x="${right}" y="${bottom + 36}" text-anchor="end">step (${escapeText(note)})</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n');
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
