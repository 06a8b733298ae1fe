"""examples/agents/solve.py with OpenAI's own client, which finds URL and key in its environment."""

import json
import os
import pathlib
import sys

import openai

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "agents"))
from solve import TOOLS, answer  # noqa: E402

client = openai.OpenAI()
messages = [{"role": "user", "content": json.loads(os.environ["ROLLCALL_TASK"])["question"]}]
while True:
    completion = client.chat.completions.create(model="policy", messages=messages, tools=TOOLS)
    reply = completion.choices[0].message
    messages.append(reply.model_dump(exclude_none=True))
    if not reply.tool_calls:
        break
    for call in reply.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": answer(call.model_dump())})
