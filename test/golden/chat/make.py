"""Small tokenizers with the structure of real families, and what the reference libraries make of texts and dialogues.

    python test/golden/chat/make.py        # tokenizers and transformers; from the repository's root

The tokenizers are trained here on docs/*.md: their vocabularies are ours, their normalizers, splits, added tokens and
decoders are those of Qwen 3, Llama 3 and Gemma 4. Templates are those of test/data/chat-templates; the dialogues are
those of test/data/chat-golden.json. Ids and texts come from the Rust library `tokenizers`, prompts from the Jinja of
`transformers`; nothing comes from the code under test.
"""
import datetime
import glob
import json
import os

import tokenizers
import transformers
import transformers.utils.chat_template_utils as chat_templates
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
VOCABULARY = 700
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
TEXTS = [
    "What is 12 + 30?", "don't  stop\n\n  indented\ttab \r\n", "你好 👩‍👩‍👧 río naïve e\u0301", "1234567 3.14159", "",
    '{"name": "add", "arguments": {"a": 1}}', "<tool_call>\n{}\n</tool_call>", "<|im_end|><|eot_id|><turn|>",
    "a" * 40, " leading", "trailing ", "▁ and _", "\u0000\u001f\u00a0\u2028", "if x < 3 and y > 4: return [x, y]",
]


class Noon(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 7, 10, 12)


def corpus():
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf8") as file:
            yield file.read()


def byte_level(split, normalizer):
    tokenizer = Tokenizer(models.BPE(ignore_merges=split is LLAMA))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(split), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_fallback():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<pad>", "<unk>", *[f"<0x{byte:02X}>" for byte in range(256)]]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    # Bytes are ordinary entries of the vocabulary in Gemma's file; the trainer lists them as added tokens.
    written = json.loads(tokenizer.to_str())
    written["added_tokens"] = [token for token in written["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(written))


FAMILIES = {
    "qwen3": {
        "make": lambda: byte_level(QWEN, normalizers.NFC()),
        "special": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"],
        "plain": ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"],
        "config": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        "template": "chatml",
    },
    "llama3": {
        "make": lambda: byte_level(LLAMA, None),
        "special": ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|finetune_right_pad_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"],
        "plain": [],
        "config": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
        "template": "llama3",
    },
    "gemma4": {
        "make": byte_fallback,
        "special": ["<eos>", "<bos>", "<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>', "<|channel>", "<channel|>"],
        "plain": [],
        "config": {"bos_token": "<bos>", "eos_token": "<turn|>", "pad_token": "<pad>"},
        "template": "gemma4",
    },
}


def for_template(message):
    written = {"role": message["role"], "content": message["content"]}
    if "toolCalls" in message:
        written["tool_calls"] = [
            {"type": "function", "id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in message["toolCalls"]
        ]
    for ours, theirs in (("toolCallId", "tool_call_id"), ("name", "name")):
        if ours in message:
            written[theirs] = message[ours]
    return written


def dialogues(tokenizer, golden):
    for case in golden["cases"]:
        tools = golden["tools"] if case["withTools"] else None
        try:
            text = tokenizer.apply_chat_template(
                [for_template(message) for message in case["messages"]],
                tools=tools, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # a template may refuse a dialogue, as Llama's does parallel calls
            yield {"name": case["name"], "refused": str(error)}
            continue
        yield {"name": case["name"], "ids": tokenizer(text, add_special_tokens=False)["input_ids"]}


def main():
    chat_templates.datetime = Noon
    with open(os.path.join(ROOT, "test/data/chat-golden.json"), encoding="utf8") as file:
        golden = json.load(file)
    for name, family in FAMILIES.items():
        folder = os.path.join(HERE, name)
        os.makedirs(folder, exist_ok=True)
        tokenizer = family["make"]()
        tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in family["special"]])
        tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in family["plain"]])
        tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
        with open(os.path.join(ROOT, f"test/data/chat-templates/{family['template']}.jinja"), encoding="utf8") as file:
            template = file.read()
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **family["config"], "chat_template": template}
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf8") as file:
            json.dump(config, file, ensure_ascii=False, indent=1)
        loaded = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=template, **family["config"])
        texts = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            texts.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
        with open(os.path.join(folder, "golden.json"), "w", encoding="utf8") as file:
            json.dump({
                "made by": f"tokenizers {tokenizers.__version__}, transformers {transformers.__version__}: test/golden/chat/make.py",
                "date": "2025-07-10T12:00:00Z", "texts": texts, "dialogues": list(dialogues(loaded, golden)),
            }, file, ensure_ascii=False)
        print(name, tokenizer.get_vocab_size(), "entries")
    render_all(loaded, golden)


def render_all(tokenizer, golden):
    """Every template of test/data/chat-templates, as text: what `transformers` renders of each dialogue."""
    rendered = []
    for path in sorted(glob.glob(os.path.join(ROOT, "test/data/chat-templates", "*.jinja"))):
        with open(path, encoding="utf8") as file:
            template = file.read()
        for case in golden["cases"]:
            messages = [for_template(message) for message in case["messages"]]
            tools = golden["tools"] if case["withTools"] else None
            try:
                text = tokenizer.apply_chat_template(
                    messages, chat_template=template, tools=tools, add_generation_prompt=True, tokenize=False)
            except Exception:
                continue  # a template may refuse a dialogue
            data = {"messages": messages, "tools": tools or [], "add_generation_prompt": True, **tokenizer.special_tokens_map}
            rendered.append({"name": f"{os.path.basename(path)}: {case['name']}", "template": os.path.basename(path), "data": data, "target": text})
    with open(os.path.join(HERE, "templates.json"), "w", encoding="utf8") as file:
        json.dump(rendered, file, ensure_ascii=False)
    print(len(rendered), "renderings")


if __name__ == "__main__":
    main()
