"""The loop of `npm run bench gateway` in Python: asyncio, aiohttp, and json or orjson (first argument).

Reads one JSON job a line on standard input and answers one JSON line. Each trajectory stays with one server and takes its
turns; what comes back is appended to its ids. Only lengths are checked: less than a gateway must do.
"""
import asyncio, json, os, sys, time
import aiohttp

if sys.argv[1] == "orjson":
    import orjson

    dumps, loads = orjson.dumps, orjson.loads
else:
    dumps, loads = (lambda value: json.dumps(value).encode()), json.loads

PAGE = os.sysconf("SC_PAGE_SIZE")


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def sampling(tokens):
    return {
        "max_new_tokens": tokens, "min_new_tokens": 0, "temperature": 1, "top_p": 1, "top_k": -1, "min_p": 0,
        "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "stop": [], "stop_token_ids": [2],
        "sampling_seed": 7, "n": 1, "ignore_eos": False, "skip_special_tokens": False, "no_stop_trim": True,
    }


async def trajectory(number, session, job, added):
    await asyncio.sleep(job["latencyMs"] / 1000 * number / job["trajectories"])
    name = f"bench/{number}"
    url = job["urls"][number % len(job["urls"])] + "/generate"
    expected = job["latencyMs"] * (50 + number * 61 % 100) / 100
    headers = {"content-type": "application/json", "x-smg-routing-key": name}
    ids = [(number * 7919 + at * 104729) % 150000 for at in range(job["promptTokens"])]
    logprobs = []
    for turn in range(job["turns"]):
        began = time.perf_counter()
        body = {
            "rid": f"{name}/{turn}/", "input_ids": ids, "sampling_params": sampling(job["replyTokens"]),
            "return_logprob": True, "logprob_start_len": -1, "stream": False, "session_id": name,
        }
        async with session.post(url, data=dumps(body), headers=headers) as response:
            reply = loads(await response.read())
        new = [logprob for logprob, _, _ in reply["meta_info"]["output_token_logprobs"]]
        if response.status != 200 or len(new) != len(reply["output_ids"]):
            raise RuntimeError("bad reply")
        ids.extend(reply["output_ids"])
        logprobs.extend(new)
        added.append((time.perf_counter() - began) * 1000 - expected)
    return ids, logprobs


async def heartbeat(delays, peak):
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.01)
        delays.append((time.perf_counter() - began) * 1000 - 10)
        peak[0] = max(peak[0], rss()) if len(delays) % 25 == 0 else peak[0]


def quantile(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


async def run(job):
    added, delays, before = [], [], rss()
    peak = [before]
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        beat = asyncio.create_task(heartbeat(delays, peak))
        began, cpu = time.perf_counter(), time.process_time()
        done = await asyncio.gather(*(trajectory(n, session, job, added) for n in range(job["trajectories"])))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        beat.cancel()
    tokens = sum(len(ids) + len(logprobs) for ids, logprobs in done)
    return {
        "turns": len(added), "seconds": seconds, "cpuSeconds": cpu,
        "p50AddedMs": quantile(added, 0.5), "p99AddedMs": quantile(added, 0.99), "maxAddedMs": max(added),
        "loopDelayP99Ms": quantile(delays, 0.99) if delays else 0, "peakBytes": max(peak[0], rss()) - before,
        "tokenBytes": 4 * tokens,
    }


for line in sys.stdin:
    print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)
