"""Encodes and decodes as the Rust library `tokenizers` does.

Reads JSON lines {"tokenizer", "texts"}, the first a path of a tokenizer.json, and writes {"ids", "decoded"}: for each text
its ids without BOS or EOS, and the text of these ids with special tokens.
"""

import json
import sys

from tokenizers import Tokenizer

for line in sys.stdin:
    case = json.loads(line)
    tokenizer = Tokenizer.from_file(case["tokenizer"])
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in case["texts"]]
    decoded = [tokenizer.decode(each, skip_special_tokens=False) for each in ids]
    print(json.dumps({"ids": ids, "decoded": decoded}), flush=True)
