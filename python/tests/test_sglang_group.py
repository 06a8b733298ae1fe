"""The way weights take to SGLang, against a process that joins and receives as SGLang 0.5.23 does."""

import http.server
import json
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _new_process_group_helper, _world
from torch.distributed.rendezvous import rendezvous

from rollcall_torch.sglang_group import SglangGroup


def be_sglang(told: dict, pipe: Connection) -> None:
    """`init_custom_process_group`, then a broadcast for each tensor of a request."""
    name, rank, size = told["group_name"], told["rank_offset"], told["world_size"]
    limit = timedelta(seconds=30)
    address = f"tcp://{told['master_address']}:{told['master_port']}"
    store, _, _ = next(rendezvous(address, rank, size, timeout=limit))
    backend, prefixed = dist.Backend(told["backend"]), dist.PrefixStore(name, store)
    group, _ = _new_process_group_helper(size, rank, [], backend, prefixed, group_name=name, backend_options=None, timeout=limit)
    _world.pg_group_ranks[group] = {one: one for one in range(size)}
    pipe.send("joined")
    while (request := pipe.recv()) is not None:
        received = {}
        for tensor, dtype, shape in zip(request["names"], request["dtypes"], request["shapes"]):
            received[tensor] = torch.empty(shape, dtype=getattr(torch, dtype))
            group.broadcast([received[tensor]], dist.BroadcastOptions()).wait()
        pipe.send({tensor: value.tolist() for tensor, value in received.items()})


class Info(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"tp_size": 1}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("under_torchrun", [False, True])
def test_a_server_gets_every_tensor_and_the_version_with_the_last(monkeypatch: pytest.MonkeyPatch, under_torchrun: bool) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Info)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here, there = multiprocessing.get_context("spawn").Pipe()
    asked: list[tuple[str, dict]] = []
    received: dict[str, list] = {}
    workers = []

    def post(_: str, path: str, told: dict) -> dict:
        asked.append((path, told))
        if path == "/init_weights_update_group":
            workers.append(multiprocessing.get_context("spawn").Process(target=be_sglang, args=(told, there), daemon=True))
            workers[0].start()
            assert here.recv() == "joined"
        if path == "/update_weights_from_distributed":
            here.send(told)
            received.update(here.recv())
        return {"success": True}

    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", str(under_torchrun))
    with ThreadPoolExecutor(2) as threads:
        group = SglangGroup([f"http://127.0.0.1:{server.server_port}"], torch.device("cpu"), threads, post)
        tensors = {"embed": torch.arange(6.0).reshape(2, 3), "norm": torch.ones(2, dtype=torch.bfloat16)}
        group.send(iter(tensors.items()), 7)
    here.send(None)
    workers[0].join(10)
    server.shutdown()
    assert received == {name: tensor.tolist() for name, tensor in tensors.items()}
    assert [path for path, _ in asked][1:] == ["/begin_weight_update", "/update_weights_from_distributed", "/end_weight_update"]
    assert asked[2][1]["weight_version"] == "7" and asked[2][1]["flush_cache"]
