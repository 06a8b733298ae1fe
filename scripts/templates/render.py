"""Renders templates as `transformers` does. Reads JSON lines {"template", "variables"} and writes {"text"} or {"error"}."""

import datetime
import json
import sys

from transformers.utils import chat_template_utils

NOON = datetime.datetime(2024, 7, 26, 12, 0, 0)


class FixedDay(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOON


# `strftime_now` of transformers asks this name for the time.
chat_template_utils.datetime = FixedDay

for line in sys.stdin:
    case = json.loads(line)
    try:
        compiled = chat_template_utils._compile_jinja_template(case["template"])
        answer = {"text": compiled.render(**case["variables"])}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
