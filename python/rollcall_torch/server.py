"""Rank 0's socket: one client at a time, which proves itself with the token. The worker lives as long as its client."""

import hmac
import os
import queue
import socket
import threading
import time
from typing import Any

from .calls import Calls, welcome
from .errors import Abandoned, ConfigError, OutOfMemory, ProtocolError, TrainerError
from .frames import PROTOCOL, Frame, encode, read_frame
from .group import Group

SECONDS_FOR_HELLO = 10
# A call may be computing when the client goes; after this the process ends in its midst.
SECONDS_TO_END = 15
TOLD_AS_THEY_ARE = (ConfigError, TrainerError, ProtocolError)


class Connection:
    """A client that has said hello. A thread reads its calls; replies and notices are written by the main thread."""

    def __init__(self, peer: socket.socket):
        self.peer = peer
        self.stream = peer.makefile("rb")
        self.calls: queue.Queue[Frame | None] = queue.Queue()
        self.abandoned: set[int] = set()

    def send(self, frame: Frame) -> None:
        try:
            self.peer.sendall(encode(frame))
        except OSError:
            pass  # the reader sees the end of the connection too

    def read(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) != count:
            raise EOFError
        return data

    def greet(self, token: str, group: Group) -> bool:
        self.peer.settimeout(SECONDS_FOR_HELLO)
        try:
            hello = read_frame(self.read).header
            params = hello.get("params", {})
            if hello.get("call") != "hello" or params.get("protocol") != PROTOCOL:
                raise ProtocolError(
                    f"hello of protocol {PROTOCOL} is needed first; got {hello.get('call')!r} {params.get('protocol')!r}"
                )
            if not hmac.compare_digest(str(params.get("token")).encode(), token.encode()):
                raise ProtocolError("the token is wrong")
        except (ProtocolError, EOFError, OSError) as error:
            self.send(Frame({"id": 0, "error": {"kind": "ProtocolError", "message": str(error)}}))
            return False
        self.peer.settimeout(None)
        self.send(Frame({"id": hello.get("id", 0), "reply": welcome(group)}))
        return True

    def receive(self) -> None:
        """Until the connection ends. `abandon` acts at once; everything else waits for its turn."""
        try:
            while True:
                frame = read_frame(self.read)
                if frame.header.get("call") == "abandon":
                    self.abandoned.add(frame.header.get("params", {}).get("id"))
                else:
                    self.calls.put(frame)
        except (EOFError, OSError):
            pass
        except ProtocolError as error:
            self.send(Frame({"id": 0, "error": {"kind": "ProtocolError", "message": str(error)}}))
        self.calls.put(None)
        time.sleep(SECONDS_TO_END)
        os._exit(1)

    def close(self) -> None:
        self.peer.close()


def listen(host: str, port: int) -> socket.socket:
    server = socket.create_server((host, port))
    server.listen()
    return server


def accept(server: socket.socket, token: str, group: Group, seconds: float) -> Connection | None:
    """The first client that knows the token; None where none came in time."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        server.settimeout(left)
        try:
            peer, _ = server.accept()
        except TimeoutError:
            return None
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(peer)
        if connection.greet(token, group):
            return connection
        connection.close()
    return None


def serve(connection: Connection, group: Group, most_tokens: int | None) -> None:
    """Rank 0: shares each call with the others, executes it with them and replies."""
    calls = Calls(group, lambda line: connection.send(Frame({"notice": line})), most_tokens)
    threading.Thread(target=connection.receive, daemon=True).start()
    while (frame := connection.calls.get()) is not None:
        number = frame.header.get("id")
        reply, ends = answer(calls, group, frame, lambda: number in connection.abandoned)
        connection.abandoned.discard(number)
        connection.send(Frame({"id": number, **reply.header}, reply.arrays))
        if ends:
            os._exit(1)  # an orderly end would wait for ranks that are out of step
    group.share(Frame({"call": "end"}))


def follow(group: Group, most_tokens: int | None) -> None:
    """The other ranks: execute what rank 0 shares."""
    calls = Calls(group, lambda line: None, most_tokens)
    while (frame := group.share(None)).header.get("call") != "end":
        _, ends = answer(calls, None, frame, lambda: False)
        if ends:
            os._exit(1)


def answer(calls: Calls, sharing: Group | None, frame: Frame, stop: Any) -> tuple[Frame, bool]:
    """Shares the call with the other ranks, on rank 0, and executes it. Returns the reply, and whether the group must end
    after it. What is wrong with a call is found by every rank alike, before anything is exchanged; after any other failure
    the ranks may be out of step."""
    try:
        if sharing:
            sharing.share(frame)
        return calls.execute(frame, stop), False
    except Abandoned:
        return failure("Abandoned", "the call was abandoned"), False
    except TOLD_AS_THEY_ARE as error:
        return failure(type(error).__name__, str(error)), False
    except OutOfMemory as error:
        return failure("OutOfMemory", str(error), tokens=error.tokens, ends=True), True
    except Exception as error:  # noqa: BLE001 any failure is reported to the client
        ends = calls.group.size > 1
        return failure(type(error).__name__, str(error), ends=ends), ends


def failure(kind: str, message: str, **more: int) -> Frame:
    return Frame({"error": {"kind": kind, "message": message, **more}})
