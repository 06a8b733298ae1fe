"""Writes tokenizer.json and tokenizer_config.json from the vocabulary in a GGUF file.

GGUF names the pre-tokenizer and does not describe it; those that are needed here are described below, as the models'
own files have them. Usage: from-gguf.py FILE FOLDER
"""

import json
import os
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def byte_level(pre):
    steps = {
        "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
        "smollm": [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)],
    }[pre]
    return pre_tokenizers.Sequence(steps), decoders.ByteLevel()


def merges_by_score(tokens, scores):
    """SentencePiece has scores in place of merges: of all pairs that make a token, the best score goes first."""
    score = dict(zip(tokens, scores))
    ids = {token: at for at, token in enumerate(tokens)}
    pairs = []
    for token, value in score.items():
        splits = [(token[:at], token[at:]) for at in range(1, len(token))]
        splits = [(left, right) for left, right in splits if left in score and right in score]
        pairs += [(*pair, value) for pair in sorted(splits, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return [(left, right) for left, right, _ in sorted(pairs, key=lambda pair: pair[2], reverse=True)]


def main(path, folder):
    fields = {key: field.contents() for key, field in GGUFReader(path).fields.items() if key.startswith("tokenizer.")}
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    vocabulary = {token: at for at, token in enumerate(tokens)}
    kind = fields["tokenizer.ggml.model"]
    unknown = next((token for token, each in zip(tokens, types) if each == UNKNOWN), None)
    if kind == "gpt2":
        merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
        tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        tokenizer.pre_tokenizer, tokenizer.decoder = byte_level(fields["tokenizer.ggml.pre"])
    elif kind == "gemma4":
        merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    else:
        plain = [token for token, each in zip(tokens, types) if each == NORMAL]
        scores = [score for score, each in zip(fields["tokenizer.ggml.scores"], types) if each == NORMAL]
        merges = merges_by_score(plain, scores)
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    special = [token for token, each in zip(tokens, types) if each in (CONTROL, UNKNOWN)]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    defined = [token for token, each in zip(tokens, types) if each == USER_DEFINED]
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in defined])
    named = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {name: fields.get(f"tokenizer.ggml.{key}_token_id") for name, key in named.items()}
    config = {name: tokens[at] for name, at in ids.items() if at is not None}
    config["chat_template"] = fields.get("tokenizer.chat_template")
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump(config, file)


main(*sys.argv[1:])
