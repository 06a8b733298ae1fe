"""Reads replies with SGLang's and vLLM's own parsers: one line of JSON for each question, one for each answer.

Only their parsers are loaded. What these import from the rest of the engines, PyTorch included, is stood in for by
empty classes that keep what they are given.
"""
import contextlib
import importlib
import importlib.abc
import importlib.util
import io
import json
import logging
import os
import sys
import types

FOLDER = sys.argv[1]
REAL = ('sglang.srt.function_call', 'vllm.tool_parsers', 'vllm.parser', 'vllm.reasoning', 'sglang.srt.parser')
STOOD_IN = ('sglang', 'vllm', 'torch', 'openai', 'xgrammar', 'openai_harmony', 'mistral_common', 'transformers', 'jinja2',
            'prometheus_client', 'llguidance', 'outlines_core', 'soundfile', 'numpy', 'PIL', 'zmq', 'cachetools')


class Kept:
    """Keeps what it is given, as the engines' own records do."""

    def __init__(self, *_, **fields):
        for name in getattr(type(self), '__annotations__', {}):
            setattr(self, name, getattr(type(self), name, None))
        self.__dict__.update(fields)

    def __class_getitem__(cls, _):
        return cls

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return None

    def model_dump(self, **_):
        return {key: value.model_dump() if isinstance(value, Kept) else value for key, value in self.__dict__.items()}


class StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        if self.__name__.endswith('envs'):
            return 10 if name.endswith('SECONDS') else False
        made = type(name, (Kept,), {'__module__': self.__name__})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        top = name.split('.')[0]
        if top not in STOOD_IN:
            return None
        parts = name.split('.')
        is_real = any(name == real or name.startswith(real + '.') for real in REAL)
        if is_real:
            at = os.path.join(FOLDER, *parts)
            if os.path.isdir(at):
                return importlib.util.spec_from_file_location(name, os.path.join(at, '__init__.py'), submodule_search_locations=[at]) \
                    if os.path.exists(os.path.join(at, '__init__.py')) else importlib.util.spec_from_loader(name, self)
            if os.path.exists(at + '.py'):
                return importlib.util.spec_from_file_location(name, at + '.py')
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
logging.disable(logging.CRITICAL)


class Flag:
    def __init__(self, value=False):
        self.value = value

    def get(self):
        return self.value


class Flags:
    def __getattr__(self, name):
        return Flag(name == 'SGLANG_FORWARD_UNKNOWN_TOOLS')


importlib.import_module('sglang.srt.environ').envs = Flags()
logger = importlib.import_module('vllm.logger')
logger.init_logger = logging.getLogger
logging.Logger.warning_once = logging.Logger.info_once = lambda *_: None
importlib.import_module('vllm.renderers.chat_utils').make_tool_call_id = lambda **_: 'id'


class Mark(str):
    value = property(str)


class Marks(type):
    def __getattr__(cls, name):
        return Mark(f"[{'' if not name.startswith('end_') else '/'}{name.removeprefix('end_').removeprefix('begin_').upper()}]")


for module in ('mistral_common.tokens.tokenizers.base', 'mistral_common.tokens.tokenizers.tekken'):
    importlib.import_module(module).SpecialTokens = Marks('SpecialTokens', (), {})
importlib.import_module('vllm.utils').random_uuid = lambda: 'id'
importlib.import_module('vllm.utils.mistral').is_mistral_tokenizer = lambda _: False
importlib.import_module('vllm.utils.collection_utils').is_list_of = lambda value, kind, **_: isinstance(value, list)


class Vocabulary(dict):
    """Every text that is asked for is one token."""

    def __missing__(self, key):
        self[key] = 100 + len(self)
        return self[key]

    def get(self, key, default=None):
        return self[key] if key is not None else default

    def __contains__(self, _):
        return True


class Tokenizer:
    def __init__(self):
        self.vocabulary = Vocabulary()
        self.all_special_tokens, self.all_special_ids, self.added_tokens_decoder = [], [], {}
        self.eos_token, self.eos_token_id, self.chat_template = '</s>', 2, ''

    def get_vocab(self):
        return self.vocabulary

    def encode(self, text, **_):
        return [self.vocabulary[text]]

    def decode(self, ids, **_):
        back = {value: key for key, value in self.vocabulary.items()}
        return ''.join(back.get(one, '') for one in ids)

    def convert_tokens_to_ids(self, token):
        return self.vocabulary[token]


def fields(made, **values):
    one = made()
    one.__dict__.update(values)
    return one


def parameters_of(text):
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def by_sglang(parser, text, tools):
    file, name = parser.split(':')
    protocol = importlib.import_module('sglang.srt.entrypoints.openai.protocol')
    made = [fields(protocol.Tool, type='function', function=fields(protocol.Function, **tool['function'])) for tool in tools]
    detector = getattr(importlib.import_module('sglang.srt.function_call.' + file), name)()
    found = detector.detect_and_parse(text, made)
    return {'content': found.normal_text or '', 'calls': [[call.name, parameters_of(call.parameters)] for call in found.calls]}


def by_vllm(parser, text, tools):
    file, name = parser.split(':')
    protocol = importlib.import_module('vllm.entrypoints.openai.chat_completion.protocol')
    base = importlib.import_module('vllm.entrypoints.openai.engine.protocol')
    made = [fields(protocol.ChatCompletionToolsParam, type='function', function=fields(base.FunctionDefinition, **tool['function'])) for tool in tools]
    request = fields(protocol.ChatCompletionRequest, tools=made, tool_choice='auto', skip_special_tokens=False, include_reasoning=True)
    parser_class = getattr(importlib.import_module('vllm.tool_parsers.' + file), name)
    found = parser_class(Tokenizer(), made).extract_tool_calls(text, request)
    return {'content': found.content or '', 'calls': [[call.function.name, parameters_of(call.function.arguments)] for call in found.tool_calls]}


READERS = {'sglang': by_sglang, 'vllm': by_vllm}

for line in sys.stdin:
    asked = json.loads(line)
    noise = io.StringIO()
    try:
        with contextlib.redirect_stdout(noise):
            answer = READERS[asked['engine']](asked['parser'], asked['text'], asked['tools'])
    except Exception as error:
        answer = {'error': f'{type(error).__name__}: {error}'}
    print(json.dumps(answer, default=str), flush=True)
