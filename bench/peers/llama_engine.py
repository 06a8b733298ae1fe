"""Generation by llama.cpp (PyPI's llama-cpp-python), for `npm run bench engine -- --against llama`.

Reads one JSON request a line and answers one: {"do": "convert", "gguf": FILE, "to": FILE, "type": "Q8_0" | "BF16"} writes
the weights of a file in another type; {"do": "generate", "gguf": FILE, "requests": N, "promptTokens": N, "tokens": N,
"threads": N, "sample": true} decodes one prompt for all requests, then a token of each a step. With "sample" each token
is drawn from the distribution by llama.cpp's own sampler; without, random ids are fed as llama-bench does.
"""
import ctypes, json, os, random, sys, time
import llama_cpp as llama

TYPES = {"Q8_0": llama.LLAMA_FTYPE_MOSTLY_Q8_0, "BF16": llama.LLAMA_FTYPE_MOSTLY_BF16}
models = {}

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the library prints is not an answer
log = llama.llama_log_callback(lambda *_: None)
llama.llama_log_set(log, ctypes.c_void_p(0))
llama.llama_backend_init()


def convert(request):
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.pure = TYPES[request["type"]], True, True
    code = llama.llama_model_quantize(request["gguf"].encode(), request["to"].encode(), ctypes.byref(params))
    return {"bytes": os.path.getsize(request["to"])} if code == 0 else {"error": f"llama_model_quantize: {code}"}


def load(gguf):
    if gguf not in models:
        models[gguf] = llama.llama_model_load_from_file(gguf.encode(), llama.llama_model_default_params())
    return models[gguf]


def generate(request):
    model, n, prompt, tokens = load(request["gguf"]), request["requests"], request["promptTokens"], request["tokens"]
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = prompt + n * tokens + 64, 512, 512
    params.n_seq_max, params.kv_unified = n, True
    params.n_threads = params.n_threads_batch = request["threads"]
    context = llama.llama_init_from_model(model, params)
    memory = llama.llama_get_memory(context)
    samplers = [llama.llama_sampler_init_dist(seed) for seed in range(n)]
    batch = llama.llama_batch_init(max(prompt, n), 0, 1)

    def decode(entries):
        batch.n_tokens = len(entries)
        for i, (token, position, sequence, wanted) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
            batch.seq_id[i][0] = sequence
        if llama.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")

    def next_ids(rows):
        if not request["sample"]:
            return [random.randrange(vocabulary) for _ in range(n)]
        return [llama.llama_sampler_sample(samplers[i], context, row) for i, row in enumerate(rows)]

    ids = [random.randrange(vocabulary) for _ in range(prompt)]
    start = time.perf_counter()
    decode([(token, at, 0, at == prompt - 1) for at, token in enumerate(ids)])
    for sequence in range(1, n):
        llama.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
    chosen = next_ids([prompt - 1] * n)
    for at in range(prompt, prompt + tokens - 1):
        decode([(token, at, sequence, 1) for sequence, token in enumerate(chosen)])
        chosen = next_ids(range(n))
    llama.llama_synchronize(context)
    seconds = time.perf_counter() - start
    for sampler in samplers:
        llama.llama_sampler_free(sampler)
    llama.llama_batch_free(batch)
    llama.llama_free(context)
    return {"tokensPerSecond": n * tokens / seconds}


for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "about":
        answer = {"llama-cpp-python": llama.__version__, "units": llama.llama_print_system_info().decode().strip()}
    else:
        answer = {"convert": convert, "generate": generate}[request["do"]](request)
    print(json.dumps(answer), file=answers, flush=True)
