export interface Formula {
  readonly needs: readonly string[];
  /** Throws where no such figure exists. */
  compute(given: Readonly<Record<string, number>>): Readonly<Record<string, number>>;
}

const { PI, sqrt, sin, cos, tan, acos, hypot } = Math;
const radians = (degrees: number) => (degrees * PI) / 180;
const degrees = (angle: number) => (angle * 180) / PI;

/** A formula of lengths, which are above 0, and of angles between 0 and 180 degrees (`turn`: up to 360). */
function formula<const Names extends readonly string[]>(
  needs: Names,
  compute: (given: Readonly<Record<Names[number], number>>) => Readonly<Record<string, number>>,
): Formula {
  return {
    needs,
    compute: (given) => {
      for (const [name, value] of Object.entries(given)) {
        const most = name === 'turn' ? 360 : name === 'angle' ? 180 : Number.POSITIVE_INFINITY;
        if (/^[xy]\d$/.test(name) || (value > 0 && value <= most)) continue;
        const range = most === Number.POSITIVE_INFINITY ? 'above 0' : `above 0 and at most ${most}`;
        throw new Error(`${name} is ${value}; it must be ${range}`);
      }
      return compute(given as Readonly<Record<Names[number], number>>);
    },
  };
}

/** The angle opposite to `a`, by the law of cosines. */
function angleOpposite(a: number, b: number, c: number): number {
  return degrees(acos((b * b + c * c - a * a) / (2 * b * c)));
}

function triangle(a: number, b: number, c: number): Readonly<Record<string, number>> {
  if (!(a + b > c && b + c > a && a + c > b)) {
    throw new Error(`no triangle has the sides ${a}, ${b}, ${c}: two of them must be longer than the third`);
  }
  const half = (a + b + c) / 2;
  return {
    area: sqrt(half * (half - a) * (half - b) * (half - c)),
    perimeter: a + b + c,
    angle_a: angleOpposite(a, b, c),
    angle_b: angleOpposite(b, a, c),
    angle_c: angleOpposite(c, a, b),
  };
}

export const FORMULAS: Readonly<Record<string, Formula>> = {
  triangle_base_height: formula(['base', 'height'], ({ base, height }) => ({ area: (base * height) / 2 })),
  triangle_sides: formula(['a', 'b', 'c'], ({ a, b, c }) => triangle(a, b, c)),
  triangle_two_sides_angle: formula(['a', 'b', 'angle'], ({ a, b, angle }) => {
    const c = sqrt(a * a + b * b - 2 * a * b * cos(radians(angle)));
    return { third_side: c, ...triangle(a, b, c) };
  }),
  triangle_side_two_angles: formula(
    ['side', 'opposite_angle', 'angle'],
    ({ side, opposite_angle, angle }) => {
      const third = 180 - opposite_angle - angle;
      if (third <= 0) throw new Error(`the angles ${opposite_angle} and ${angle} leave none for the third`);
      const scale = side / sin(radians(opposite_angle));
      return {
        third_angle: third,
        side_opposite_angle: scale * sin(radians(angle)),
        side_opposite_third: scale * sin(radians(third)),
      };
    },
  ),
  hypotenuse: formula(['leg', 'other_leg'], ({ leg, other_leg }) => ({ hypotenuse: hypot(leg, other_leg) })),
  leg: formula(['hypotenuse', 'other_leg'], ({ hypotenuse, other_leg }) => {
    if (hypotenuse <= other_leg) throw new Error('the hypotenuse is the longest side');
    return { leg: sqrt(hypotenuse ** 2 - other_leg ** 2) };
  }),
  rectangle: formula(['width', 'height'], ({ width, height }) => ({
    area: width * height,
    perimeter: 2 * (width + height),
    diagonal: hypot(width, height),
  })),
  parallelogram: formula(['base', 'height'], ({ base, height }) => ({ area: base * height })),
  trapezoid: formula(['a', 'b', 'height'], ({ a, b, height }) => ({
    area: ((a + b) * height) / 2,
    midline: (a + b) / 2,
  })),
  rhombus: formula(['diagonal', 'other_diagonal'], ({ diagonal, other_diagonal }) => ({
    area: (diagonal * other_diagonal) / 2,
    side: hypot(diagonal, other_diagonal) / 2,
  })),
  regular_polygon: formula(['sides', 'side'], ({ sides, side }) => {
    if (!Number.isInteger(sides) || sides < 3) throw new Error(`a polygon has 3 sides or more; not ${sides}`);
    const apothem = side / (2 * tan(PI / sides));
    return {
      area: (sides * side * apothem) / 2,
      perimeter: sides * side,
      apothem,
      interior_angle: 180 - 360 / sides,
    };
  }),
  circle: formula(['radius'], ({ radius }) => ({ area: PI * radius ** 2, circumference: 2 * PI * radius })),
  sector: formula(['radius', 'turn'], ({ radius, turn }) => ({
    arc: radians(turn) * radius,
    area: (radians(turn) * radius ** 2) / 2,
    chord: 2 * radius * sin(radians(turn) / 2),
  })),
  segment_between: formula(['x1', 'y1', 'x2', 'y2'], ({ x1, y1, x2, y2 }) => ({
    length: hypot(x2 - x1, y2 - y1),
    middle_x: (x1 + x2) / 2,
    middle_y: (y1 + y2) / 2,
  })),
  proportion: formula(['a', 'b', 'c'], ({ a, b, c }) => ({ d: (b * c) / a })),
  box: formula(['width', 'height', 'depth'], ({ width, height, depth }) => ({
    volume: width * height * depth,
    surface: 2 * (width * height + height * depth + width * depth),
  })),
  cylinder: formula(['radius', 'height'], ({ radius, height }) => ({
    volume: PI * radius ** 2 * height,
    surface: 2 * PI * radius * (radius + height),
  })),
  cone: formula(['radius', 'height'], ({ radius, height }) => ({
    volume: (PI * radius ** 2 * height) / 3,
    surface: PI * radius * (radius + hypot(radius, height)),
  })),
  sphere: formula(['radius'], ({ radius }) => ({
    volume: (4 * PI * radius ** 3) / 3,
    surface: 4 * PI * radius ** 2,
  })),
};
