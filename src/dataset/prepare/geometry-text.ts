/**
 * Geometry3K's logic forms in words. `Equals(LengthOf(Line(A, B)), x+21)` is a term: a name with arguments. Lines,
 * angles and shapes are named by their points; everything else reads as its name.
 */
export interface Term {
  readonly name: string;
  readonly of: readonly Term[];
}

export function parseTerm(text: string): Term {
  const open = text.indexOf('(');
  if (open < 0 || !text.trim().endsWith(')') || !/^\s*[A-Z]\w*$/.test(text.slice(0, open))) {
    return { name: text.trim(), of: [] };
  }
  const inside = text.slice(open + 1, text.lastIndexOf(')'));
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  [...inside].forEach((character, at) => {
    if (character === '(') depth++;
    if (character === ')') depth--;
    if (character === ',' && depth === 0) {
      parts.push(inside.slice(start, at));
      start = at + 1;
    }
  });
  parts.push(inside.slice(start));
  return { name: text.slice(0, open).trim(), of: parts.map(parseTerm) };
}

const points = (term: Term): string =>
  term.of
    .filter((point) => point.of.length === 0 && !/^radius/.test(point.name))
    .map((point) => point.name)
    .join('');

const QUANTITIES: Readonly<Record<string, string>> = {
  LengthOf: 'the length of',
  MeasureOf: 'the measure of',
  AreaOf: 'the area of',
  PerimeterOf: 'the perimeter of',
  CircumferenceOf: 'the circumference of',
  RadiusOf: 'the radius of',
  DiameterOf: 'the diameter of',
  RatioOf: 'the ratio of',
  ScaleFactorOf: 'the scale factor of',
  HeightOf: 'the height of',
  SinOf: 'the sine of',
  CosOf: 'the cosine of',
  TanOf: 'the tangent of',
  HalfOf: 'half of',
  SquareOf: 'the square of',
  SqrtOf: 'the square root of',
};
const INFIX: Readonly<Record<string, string>> = {
  Equals: '=',
  Parallel: 'is parallel to',
  Perpendicular: 'is perpendicular to',
  Congruent: 'is congruent to',
  Similar: 'is similar to',
  PointLiesOnLine: 'lies on',
  PointLiesOnCircle: 'lies on',
  Tangent: 'is tangent to',
};
const SHAPES =
  /^(Line|Angle|Triangle|Circle|Arc|Quadrilateral|Parallelogram|Rectangle|Square|Rhombus|Trapezoid|Kite|Polygon|Pentagon|Hexagon|Sector|Shape|Point)$/;

export function sayTerm(term: Term): string {
  const { name, of } = term;
  if (of.length === 0) return name === '$' ? 'the figure' : name.replace(/^angle (\d)/, 'angle $1');
  if (name === 'Find') return `find ${of.map(sayTerm).join(' and ')}`;
  const quantity = QUANTITIES[name];
  if (quantity) return `${quantity} ${of.map(sayTerm).join(' to ')}`;
  const infix = INFIX[name];
  if (infix && of.length === 2) return `${sayTerm(of[0]!)} ${infix} ${sayTerm(of[1]!)}`;
  if (SHAPES.test(name)) {
    const named = points(term);
    if (named === '$' || named === '') return name === 'Shape' ? 'the figure' : `the ${name.toLowerCase()}`;
    return name === 'Line' || name === 'Point' ? named : `${name.toLowerCase()} ${named}`;
  }
  const words = name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
  if (/^Is.+Of$/.test(name)) {
    return `${sayTerm(of[0]!)} is the ${words.slice(3)} ${of.slice(1).map(sayTerm).join(' and ')}`;
  }
  return of.length === 1
    ? `${sayTerm(of[0]!)} is ${words}`
    : `${sayTerm(of[0]!)} ${words} ${of.slice(1).map(sayTerm).join(' and ')}`;
}

/** A problem in sentences: what is given, then what to find. */
export function sayProblem(forms: readonly string[]): string {
  const terms = forms.map(parseTerm);
  const goals = terms.filter((term) => term.name === 'Find').map(sayTerm);
  const givens = terms.filter((term) => term.name !== 'Find').map(sayGiven);
  const given = givens.length > 0 ? `Given that ${givens.join(', ')}, ` : '';
  const text = `${given}${goals.join(' and ')}.`;
  return text[0]!.toUpperCase() + text.slice(1);
}

function sayGiven(term: Term): string {
  if (!SHAPES.test(term.name)) return sayTerm(term);
  const named = points(term);
  const shape = term.name.toLowerCase();
  return named === '$' || named === '' ? `the figure is a ${shape}` : `${named} is a ${shape}`;
}

/** Relations that a plain drawing does not show: right angles, parallels, equal lengths and angles. */
export function isHiddenRelation(form: string): boolean {
  const term = parseTerm(form);
  if (term.name === 'Perpendicular' || term.name === 'Parallel') return true;
  return term.name === 'Equals' && (term.of[1]?.of.length ?? 0) > 0;
}
