/** Words of mathematics as LaTeX and people write them. */

/** Functions of one argument, by every name they go by. */
export const FUNCTIONS: Readonly<Record<string, string>> = {
  ...named([
    'sin',
    'cos',
    'tan',
    'cot',
    'sec',
    'csc',
    'sinh',
    'cosh',
    'tanh',
    'coth',
    'exp',
    'ln',
    'log',
    'lg',
  ]),
  ...named(['arcsin', 'arccos', 'arctan', 'arccot', 'arcsec', 'arccsc', 'arsinh', 'arcosh', 'artanh']),
  ...named([
    'floor',
    'ceil',
    'abs',
    'sgn',
    'det',
    'tr',
    'rank',
    'Re',
    'Im',
    'arg',
    'cis',
    'gcd',
    'lcm',
    'max',
    'min',
  ]),
  ...{ asin: 'arcsin', acos: 'arccos', atan: 'arctan', arctg: 'arctan', tg: 'tan', ctg: 'cot', cosec: 'csc' },
  ...{ trace: 'tr', ceiling: 'ceil' },
  ...{ arcsinh: 'arsinh', arccosh: 'arcosh', arctanh: 'artanh', sign: 'sgn', GCD: 'gcd', LCM: 'lcm' },
};

function named(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, name]));
}

/** Functions whose argument may be an angle in degrees. */
export const TRIGONOMETRIC: ReadonlySet<string> = new Set(['sin', 'cos', 'tan', 'cot', 'sec', 'csc', 'cis']);

const INVERSES: Readonly<Record<string, string>> = {
  ...{ sin: 'arcsin', cos: 'arccos', tan: 'arctan', cot: 'arccot', sec: 'arcsec', csc: 'arccsc' },
  ...{ sinh: 'arsinh', cosh: 'arcosh', tanh: 'artanh' },
};

/** `\sin^{-1}` is the inverse function, not the reciprocal. */
export const inverseOf = (name: string): string | undefined => INVERSES[name];

export const GREEK: ReadonlySet<string> = new Set(
  (
    'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho varrho ' +
    'sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ' +
    'ell hbar aleph ldots cdots dots'
  ).split(' '),
);

/** Characters that stand for LaTeX. */
export const CHARACTERS: Readonly<Record<string, string>> = {
  ...{
    '−': '-',
    '–': '-',
    '—': '-',
    '×': '\\times ',
    '·': '\\cdot ',
    '⋅': '\\cdot ',
    '∙': '\\cdot ',
    '÷': '\\div ',
  },
  ...{
    π: '\\pi ',
    '∞': '\\infty ',
    '√': '\\surd ',
    '±': '\\pm ',
    '∓': '\\mp ',
    '°': '^\\circ ',
    '…': '\\ldots ',
  },
  ...{
    '≤': '\\le ',
    '≥': '\\ge ',
    '⩽': '\\le ',
    '⩾': '\\ge ',
    '≠': '\\ne ',
    '≈': '\\approx ',
    '≡': '\\equiv ',
  },
  ...{ '∈': '\\in ', '∉': '\\notin ', '∪': '\\cup ', '∩': '\\cap ', '∅': '\\emptyset ', '∖': '\\setminus ' },
  ...{ ℝ: '\\mathbb{R}', ℤ: '\\mathbb{Z}', ℕ: '\\mathbb{N}', ℚ: '\\mathbb{Q}', ℂ: '\\mathbb{C}' },
  ...{
    '½': '\\frac{1}{2}',
    '¼': '\\frac{1}{4}',
    '¾': '\\frac{3}{4}',
    '⅓': '\\frac{1}{3}',
    '⅔': '\\frac{2}{3}',
  },
  ...{
    '⁰': '^0',
    '¹': '^1',
    '²': '^2',
    '³': '^3',
    '⁴': '^4',
    '⁵': '^5',
    '⁶': '^6',
    '⁷': '^7',
    '⁸': '^8',
    '⁹': '^9',
  },
  ...{
    '₀': '_0',
    '₁': '_1',
    '₂': '_2',
    '₃': '_3',
    '₄': '_4',
    '₅': '_5',
    '₆': '_6',
    '₇': '_7',
    '₈': '_8',
    '₉': '_9',
  },
  ...{ α: '\\alpha ', β: '\\beta ', γ: '\\gamma ', δ: '\\delta ', θ: '\\theta ', λ: '\\lambda ', μ: '\\mu ' },
  ...{ ρ: '\\rho ', σ: '\\sigma ', τ: '\\tau ', φ: '\\phi ', ω: '\\omega ', Δ: '\\Delta ', Σ: '\\Sigma ' },
  ...{
    '’': "'",
    '′': "'",
    '“': '"',
    '”': '"',
    '，': ',',
    '（': '(',
    '）': ')',
    '：': ':',
    '\u00a0': ' ',
    '\u202f': ' ',
  },
  ...{
    '⟨': '\\langle ',
    '⟩': '\\rangle ',
    '⌊': '\\lfloor ',
    '⌋': '\\rfloor ',
    '⌈': '\\lceil ',
    '⌉': '\\rceil ',
  },
};

/** Units whose size matters, by their family and their size within it. A plural, a power or a dot changes nothing. */
const SIZES: Readonly<Record<string, readonly [string, number]>> = {
  ...sized('length', {
    mm: 1,
    millimeter: 1,
    millimetre: 1,
    cm: 10,
    centimeter: 10,
    centimetre: 10,
    dm: 100,
  }),
  ...sized('length', { m: 1e3, meter: 1e3, metre: 1e3, km: 1e6, kilometer: 1e6, kilometre: 1e6 }),
  ...sized('length', {
    in: 25.4,
    inch: 25.4,
    inche: 25.4,
    ft: 304.8,
    feet: 304.8,
    foot: 304.8,
    yard: 914.4,
    mile: 1609344,
  }),
  ...sized('mass', {
    mg: 1,
    g: 1e3,
    gram: 1e3,
    kg: 1e6,
    kilogram: 1e6,
    ton: 1e9,
    pound: 453592,
    lb: 453592,
    ounce: 28349,
  }),
  ...sized('time', {
    second: 1,
    sec: 1,
    s: 1,
    minute: 60,
    min: 60,
    hour: 3600,
    hr: 3600,
    h: 3600,
    day: 86400,
  }),
  ...sized('time', { week: 604800, month: 2629800, year: 31557600, yr: 31557600 }),
  ...sized('money', { dollar: 100, cent: 1 }),
  ...sized('volume', {
    ml: 1,
    milliliter: 1,
    l: 1000,
    liter: 1000,
    litre: 1000,
    gallon: 3785,
    quart: 946,
    pint: 473,
  }),
};

function sized(
  family: string,
  units: Readonly<Record<string, number>>,
): Record<string, readonly [string, number]> {
  return Object.fromEntries(Object.entries(units).map(([name, size]) => [name, [family, size] as const]));
}

/** Words after a number in plain text that are a unit, not letters to multiply by. */
const OTHER_UNITS: ReadonlySet<string> = new Set(
  (
    'unit degree deg radian rad percent mph kmh kmph km/h m/s ft/s hectare acre sq square cubic joule watt volt ohm newton ' +
    'hz pa mol kelvin celsius fahrenheit people person student apple orange way time point digit coin ball marble ' +
    'cup pint quart tsp tbsp bag pen egg pie dog cat cow hen hat toy kid bus key row bit byte ticket book page word step number integer solution root term face edge side vertice rupee euro yen penny pennie ' +
    'usd eur gbp inr rs dime nickel quarter man men woman women child children boy girl car box boxe piece tile card game dozen inches'
  ).split(' '),
);

const singular = (word: string) => (word.length > 2 && word.endsWith('s') ? word.slice(0, -1) : word);

export function isUnit(word: string): boolean {
  const plain = word.toLowerCase();
  return [plain, singular(plain)].some((one) => Object.hasOwn(SIZES, one) || OTHER_UNITS.has(one));
}

/** Units of one family and different size: 5 cm is not 5 m. A unit that is not known fits any. */
export function areUnitsAtOdds(one: string, other: string): boolean {
  const [a, b] = [sizeOf(one), sizeOf(other)];
  return a !== undefined && b !== undefined && a[0] === b[0] && a[1] !== b[1];
}

function sizeOf(unit: string): readonly [string, number] | undefined {
  const words = unit.toLowerCase().match(/[a-z]+/g) ?? [];
  const known = words.map(singularKnown).filter((word) => word !== undefined);
  return known.length === 1 ? SIZES[known[0]!] : undefined;
}

const singularKnown = (word: string) => [word, singular(word)].find((one) => Object.hasOwn(SIZES, one));
