"""A worker: `python -m rollcall_torch` for one rank, or torchrun with `-m rollcall_torch` for several.

The token is read from the environment variable ROLLCALL_TORCH_TOKEN, so that it is in no list of processes.
"""

import argparse
import json
import os
import sys

import torch

from . import server
from .check import describe_machine
from .group import Group


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rollcall_torch", description=__doc__)
    parser.add_argument("--check", action="store_true", help="print what this machine can do as JSON, and end")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--announce", help="file that receives {host, port} when the worker listens")
    parser.add_argument("--seconds-to-connect", type=float, default=120)
    parser.add_argument("--seconds-per-exchange", type=float, default=600, help="a rank that takes longer is hung")
    parser.add_argument("--most-tokens", type=int, help="limit of tokens that a rank computes at once")
    parser.add_argument("--threads", type=int, help="CPU threads of a rank")
    options = parser.parse_args()
    if options.check:
        print(json.dumps(describe_machine()))
        return
    if options.threads:
        torch.set_num_threads(options.threads)
    group = Group(options.device, options.seconds_per_exchange)
    try:
        run(options, group)
    finally:
        group.close()


def run(options: argparse.Namespace, group: Group) -> None:
    if group.rank != 0:
        server.follow(group, options.most_tokens)
        return
    token = os.environ.get("ROLLCALL_TORCH_TOKEN", "")
    if not token:
        sys.exit("rollcall-torch: ROLLCALL_TORCH_TOKEN is not set; clients prove themselves with it")
    listening = server.listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    announce(options.announce, host, port)
    connection = server.accept(listening, token, group, options.seconds_to_connect)
    if connection is None:
        sys.exit(f"rollcall-torch: no client within {options.seconds_to_connect:g} s")
    server.serve(connection, group, options.most_tokens)


def announce(path: str | None, host: str, port: int) -> None:
    print(f"rollcall-torch listens on {host}:{port}", flush=True)
    if path:
        with open(f"{path}.partial", "w") as file:
            json.dump({"host": host, "port": port}, file)
        os.replace(f"{path}.partial", path)


main()
