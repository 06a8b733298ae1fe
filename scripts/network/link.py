"""A link between two network namespaces, in user space: packets of two TUN devices are passed on, late, or not at all.

`link.py NAMESPACE_A ADDRESS_A NAMESPACE_B ADDRESS_B`; standard input gives one JSON object a line, `{"delay": 0.05, "loss": 0.02,
"cut": false}` in seconds and shares, and each is answered by a line with the counts so far. Real TCP on both sides sees
real loss: netem does the same in the kernel, where it is there.
"""

import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 9000


def open_end(name: str, namespace: str, address: str, other: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for words in (
        f"link set {name} netns {namespace}",
        f"-n {namespace} addr add {address} peer {other} dev {name}",
        f"-n {namespace} link set {name} mtu {MTU} up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    return device


def main() -> None:
    one, address_one, two, address_two = sys.argv[1:]
    ends = [open_end("rc-link-a", one, address_one, address_two), open_end("rc-link-b", two, address_two, address_one)]
    chance = random.Random(1)
    state = {"delay": 0.0, "loss": 0.0, "cut": False}
    counts = {"passed": 0, "lost": 0, "cut": 0, "bytes": 0}
    waiting: list[tuple[float, int, int, bytes]] = []  # due, number, to, packet
    number = 0
    print(json.dumps(counts), flush=True)
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([*ends, sys.stdin], [], [], pause)
        for source in ready:
            if source is sys.stdin:
                line = sys.stdin.readline()
                if not line:
                    return
                state.update(json.loads(line))
                print(json.dumps(counts), flush=True)
                continue
            packet = os.read(source, 65536)
            if state["cut"]:
                counts["cut"] += 1
            elif chance.random() < state["loss"]:
                counts["lost"] += 1
            else:
                number += 1
                heapq.heappush(waiting, (time.monotonic() + state["delay"], number, ends[1 - ends.index(source)], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(waiting)
            counts["passed"] += 1
            counts["bytes"] += len(packet)
            try:
                os.write(to, packet)
            except OSError:
                counts["lost"] += 1


main()
