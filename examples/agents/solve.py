"""Solves the task in ROLLCALL_TASK with the model at OPENAI_BASE_URL, by the standard library alone.

Any client that takes a base URL does the same: `openai.OpenAI()` reads both variables by itself.
"""

import json
import math
import operator
import os
import re
import urllib.request

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "calculator",
            "description": "One operation on two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"expression": {"type": "string"}},
                "required": ["expression"],
            },
        },
    }
]

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def calculate(expression: str) -> str:
    found = re.fullmatch(r"(-?[\d.]+)([-+*/])(-?[\d.]+)", expression.replace(" ", ""))
    result = OPERATIONS[found[2]](float(found[1]), float(found[3]))
    return f"{math.floor(100 * result + 0.5) / 100:.2f}".rstrip("0").rstrip(".")


def answer(call: dict) -> str:
    """What the model reads: the result of its call, or that it was wrong."""
    try:
        return calculate(json.loads(call["function"]["arguments"])["expression"])
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return "Error: not one operation on two numbers"


def ask(messages: list) -> dict:
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "policy", "messages": messages, "tools": TOOLS}).encode(),
        {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


def solve(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    while True:
        reply = ask(messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return reply["content"]
        for call in reply["tool_calls"]:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer(call)})


if __name__ == "__main__":
    print(solve(json.loads(os.environ["ROLLCALL_TASK"])["question"]))
