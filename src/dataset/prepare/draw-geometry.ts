import { ConfigError } from '../../errors.ts';
import { parseTerm, type Term } from './geometry-text.ts';

/** A diagram as it was annotated: where points are, which are joined, and what is written beside them. */
export interface Diagram {
  readonly point_positions: Readonly<Record<string, readonly [number, number]>>;
  readonly line_instances: readonly string[];
  readonly circle_instances: readonly string[];
  readonly diagram_logic_forms: readonly string[];
}

const SIZE = 384;
const MARGIN = 36;

/** Draws a diagram as PNG: lines, circles, point names, and the given lengths and angles as labels. */
export async function drawDiagram(diagram: Diagram): Promise<Uint8Array> {
  const { createCanvas } = await import('@napi-rs/canvas').catch((cause: unknown) => {
    throw new ConfigError(
      'drawing diagrams needs the optional package @napi-rs/canvas; npm install @napi-rs/canvas',
      {
        cause,
      },
    );
  });
  const terms = diagram.diagram_logic_forms.map(parseTerm);
  const circles = circlesOf(diagram, terms);
  const place = placement(diagram, circles);
  const canvas = createCanvas(SIZE, SIZE);
  const pen = canvas.getContext('2d');
  pen.fillStyle = 'white';
  pen.fillRect(0, 0, SIZE, SIZE);
  pen.strokeStyle = 'black';
  pen.fillStyle = 'black';
  pen.lineWidth = 2;
  pen.font = '16px sans-serif';
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  for (const line of diagram.line_instances) {
    const [from, to] = [...line].map((name) => diagram.point_positions[name]);
    if (!from || !to) continue;
    pen.beginPath();
    pen.moveTo(...place.at(from));
    pen.lineTo(...place.at(to));
    pen.stroke();
  }
  for (const { centre, radius } of circles) {
    pen.beginPath();
    pen.arc(...place.at(centre), radius * place.scale, 0, 2 * Math.PI);
    pen.stroke();
  }
  const middle = place.middle;
  for (const [name, position] of Object.entries(diagram.point_positions)) {
    const [x, y] = place.at(position);
    const away = Math.hypot(x - middle[0], y - middle[1]) || 1;
    pen.fillText(name, x + ((x - middle[0]) / away) * 14, y + ((y - middle[1]) / away) * 14);
  }
  pen.fillStyle = '#1040a0';
  for (const label of labelsOf(diagram, terms))
    pen.fillText(label.text, ...nudge(place.at(label.at), middle));
  return canvas.encode('png');
}

type Point = readonly [number, number];
interface Circle {
  readonly centre: Point;
  readonly radius: number;
}

function circlesOf({ point_positions, circle_instances }: Diagram, terms: readonly Term[]): Circle[] {
  return circle_instances.flatMap((name) => {
    const centre = point_positions[name];
    if (!centre) return [];
    const radii = terms
      .filter((term) => term.name === 'PointLiesOnCircle' && term.of[1]?.of[0]?.name === name)
      .map((term) => point_positions[term.of[0]?.name ?? ''])
      .filter((point) => point !== undefined)
      .map((point) => Math.hypot(point[0] - centre[0], point[1] - centre[1]));
    if (radii.length === 0) return [];
    return [{ centre, radius: radii.reduce((sum, radius) => sum + radius, 0) / radii.length }];
  });
}

function placement({ point_positions }: Diagram, circles: readonly Circle[]) {
  const corners: Point[] = [
    ...Object.values(point_positions),
    ...circles.flatMap(({ centre: [x, y], radius }): Point[] => [
      [x - radius, y - radius],
      [x + radius, y + radius],
    ]),
  ];
  const xs = corners.map(([x]) => x);
  const ys = corners.map(([, y]) => y);
  const left = Math.min(...xs);
  const top = Math.min(...ys);
  const width = Math.max(...xs) - left;
  const height = Math.max(...ys) - top;
  const scale = (SIZE - 2 * MARGIN) / Math.max(width, height, 1);
  const at = ([x, y]: Point): [number, number] => [
    (SIZE - width * scale) / 2 + (x - left) * scale,
    (SIZE - height * scale) / 2 + (y - top) * scale,
  ];
  return { at, scale, middle: at([left + width / 2, top + height / 2]) };
}

function labelsOf({ point_positions }: Diagram, terms: readonly Term[]): { text: string; at: Point }[] {
  return terms.flatMap((term) => {
    const [what, value] = term.of;
    if (term.name !== 'Equals' || !what || !value || value.of.length > 0) return [];
    const shape = what.of[0];
    const named = (shape?.of ?? [])
      .map((point) => point_positions[point.name])
      .filter((point) => point !== undefined);
    if (what.name === 'LengthOf' && named.length === 2) {
      const [a, b] = named as [Point, Point];
      return [{ text: value.name, at: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] as Point }];
    }
    if (what.name === 'MeasureOf' && shape?.name === 'Angle' && named.length === 3) {
      const [a, corner, b] = named as [Point, Point, Point];
      const into = (from: Point, to: Point): Point => {
        const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
        return [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
      };
      const [one, other] = [into(corner, a), into(corner, b)];
      const reach =
        0.22 *
        Math.min(
          Math.hypot(a[0] - corner[0], a[1] - corner[1]),
          Math.hypot(b[0] - corner[0], b[1] - corner[1]),
        );
      return [
        {
          text: `${value.name}°`,
          at: [corner[0] + (one[0] + other[0]) * reach, corner[1] + (one[1] + other[1]) * reach] as Point,
        },
      ];
    }
    return [];
  });
}

function nudge([x, y]: [number, number], [middleX, middleY]: [number, number]): [number, number] {
  const away = Math.hypot(x - middleX, y - middleY) || 1;
  return [x + ((x - middleX) / away) * 10, y + ((y - middleY) / away) * 10];
}
