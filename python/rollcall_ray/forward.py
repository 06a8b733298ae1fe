"""Fixed addresses on this machine for processes that may move: what comes to a local port goes to wherever its process is now.

The control plane is told these addresses once. When a process is started again on another node, only the target changes.
"""

import asyncio
import threading

CHUNK = 1 << 16


class Forwarder:
    def __init__(self) -> None:
        self.targets: dict[int, tuple[str, int] | None] = {}
        self.open_now: dict[int, set[asyncio.StreamWriter]] = {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def open(self) -> int:
        """A free local port, which leads nowhere yet."""
        return asyncio.run_coroutine_threadsafe(self.listen(), self.loop).result(30)

    def lead(self, port: int, target: tuple[str, int] | None) -> None:
        """Connections to where it led before are cut: a node that lost its power never says so itself."""
        if target == self.targets[port]:
            return
        self.targets[port] = target
        self.loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in self.open_now[port]])

    async def listen(self) -> int:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.targets[port], self.open_now[port] = None, set()
        return port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        target = self.targets[port]
        try:
            if target is None:
                raise ConnectionError("its process is not there")
            far_reader, far_writer = await asyncio.wait_for(asyncio.open_connection(*target), 10)
        except (OSError, asyncio.TimeoutError):
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self.open_now[port] |= both
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        self.open_now[port] -= both
        for end in both:
            end.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()  # the other side sees that it was cut
