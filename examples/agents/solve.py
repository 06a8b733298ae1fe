"""Solves the task in ROLLCALL_TASK with the model at OPENAI_BASE_URL, by the standard library alone.

Any client that takes a base URL does the same: `openai.OpenAI()` reads both variables by itself.
"""

import json
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


def calculate(expression: str) -> str:
    found = re.fullmatch(r"(-?[\d.]+)([-+*/])(-?[\d.]+)", expression.replace(" ", ""))
    if not found:
        raise ValueError("not one operation on two numbers")
    a, sign, b = float(found[1]), found[2], float(found[3])
    result = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else float("nan")}[sign]
    if result != result:
        raise ValueError("not one operation on two numbers")
    return f"{round(result, 2):g}" if abs(result) < 1e6 else str(round(result, 2))


def ask(messages: list) -> dict:
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "policy", "messages": messages, "tools": TOOLS}).encode(),
        {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


def answer(call: dict) -> str:
    try:
        return calculate(json.loads(call["function"]["arguments"])["expression"])
    except (ValueError, KeyError, TypeError) as error:
        return f"Error: {error}"


messages = [{"role": "user", "content": json.loads(os.environ["ROLLCALL_TASK"])["question"]}]
while True:
    reply = ask(messages)
    messages.append(reply)
    if not reply.get("tool_calls"):
        break
    for call in reply["tool_calls"]:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer(call)})
print(reply["content"])
