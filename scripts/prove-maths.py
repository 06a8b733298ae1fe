"""What math-verify and verl's default scorers say of cases: JSON from stdin, JSON to stdout.

verl's scorers are loaded by their path, since the package itself needs PyTorch.
"""
import importlib.util
import json
import logging
import os
import sys
import time
import types

from math_verify import ExprExtractionConfig, LatexExtractionConfig, StringExtractionConfig, parse, verify

logging.disable(logging.CRITICAL)


def verl_module(name):
    base = importlib.util.find_spec('pylatexenc').submodule_search_locations[0]
    path = os.path.join(os.path.dirname(base), 'verl', 'utils', 'reward_score', name)
    is_package = os.path.isdir(path)
    spec = importlib.util.spec_from_file_location(
        f'verl_{name.removesuffix(".py")}',
        os.path.join(path, '__init__.py') if is_package else path,
        submodule_search_locations=[path] if is_package else None,
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# All that prime_math takes from the package: a time limit, which its cases here do not need.
limits = types.ModuleType('verl.utils.py_functional')
limits.timeout_limit = lambda seconds: lambda function: function
sys.modules.update({'verl': types.ModuleType('verl'), 'verl.utils': types.ModuleType('verl.utils'), limits.__name__: limits})

SCORERS = {name: verl_module(file) for name, file in [
    ('math_reward', 'math_reward.py'), ('math_dapo', 'math_dapo.py'), ('prime_math', 'prime_math')]}


def tried(ask):
    try:
        return bool(ask())
    except BaseException:
        return False


def by_math_verify(case):
    if case['isChoice']:
        config = [StringExtractionConfig(strings=('A', 'B', 'C', 'D', 'E'))]
    else:
        config = [LatexExtractionConfig(), ExprExtractionConfig()]
    gold = case['truth'] if case['isChoice'] else marked(case['truth'])
    answer = marked(case['answer']) if case['isBare'] else case['answer']
    return verify(parse(gold, config), parse(answer, config))


def marked(text):
    return text if '$' in text or '\\[' in text or '\\(' in text or '\\boxed' in text else f'${text}$'


def right(score):
    found = score if not isinstance(score, dict) else score['score']
    return (found[0] if isinstance(found, tuple) else found) > 0


def by_verl(name, case):
    answer = case['answer']
    if case['isBare'] and name == 'math_dapo':
        answer = f'Answer: {answer}'
    elif case['isBare'] and '\\boxed' not in answer:
        answer = f'$\\boxed{{{answer}}}$'
    return right(SCORERS[name].compute_score(answer, case['truth']))


def main():
    results = []
    for case in json.load(sys.stdin):
        began = time.perf_counter()
        verdict = tried(lambda: by_math_verify(case))
        seconds = time.perf_counter() - began
        results.append({
            'math-verify': verdict,
            'seconds': seconds,
            **{name: tried(lambda: by_verl(name, case)) for name in SCORERS},
        })
    json.dump(results, sys.stdout)


main()
