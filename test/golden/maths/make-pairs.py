"""Pairs of expressions in LaTeX, equal or not by SymPy; src/lib/maths/maths-equal.test.ts must agree.

python make-pairs.py > pairs.json
"""
import json
import random

import sympy
from sympy import Rational, apart, cos, exp, expand, expand_trig, factor, latex, radsimp, simplify, sin, sqrt, together

random.seed(7)
x, y, a, b = sympy.symbols('x y a b')


def number(low=-5, high=5):
    return random.choice([value for value in range(low, high + 1) if value != 0])


def line():
    return number() * x + number()


def cases():
    product = line() * line() * (x + y)
    yield 'product', product, expand(product)
    cubic = expand((x + number()) * (x + number()) * (x + number()))
    yield 'factor', cubic, factor(cubic)
    fractions = number() / (x + number(1, 5)) + number() / (x - number(1, 5))
    yield 'together', fractions, together(fractions)
    fraction = (x + number()) / ((x + number(1, 3)) * (x - number(1, 3)))
    yield 'apart', fraction, apart(fraction, x)
    k, r = number(1, 4), number(2, 7)
    yield 'double angle', sin(2 * k * x), 2 * sin(k * x) * cos(k * x)
    yield 'sum of angles', cos(x + y), expand_trig(cos(x + y))
    yield 'exponential', exp(k * x + y), exp(x) ** k * exp(y)
    root = 1 / (sqrt(r) + 1 + k)
    yield 'root', root, radsimp(root)
    yield 'squares', (a + b) ** 2 - (a - b) ** 2, 4 * a * b
    thirds = Rational(number(), number(2, 9)) * x + Rational(number(), number(2, 9))
    yield 'quotient', thirds, together(thirds)


pairs = []
for _ in range(4):
    for kind, left, right in cases():
        assert simplify(left - right) == 0
        pairs.append({'kind': kind, 'a': latex(left), 'b': latex(right), 'same': True})
        other = right + random.choice([1, -1]) * random.choice([Rational(1, 2), 1, x])
        assert simplify(left - other) != 0
        pairs.append({'kind': kind, 'a': latex(left), 'b': latex(other), 'same': False})
print(json.dumps({'sympy': sympy.__version__, 'pairs': pairs}, indent=1))
