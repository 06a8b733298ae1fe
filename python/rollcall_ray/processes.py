"""The processes of one place: started under a guard, asked how they are, ended."""

import collections
import os
import signal
import subprocess
import sys
import threading

GUARD_SECONDS = 10


class Process:
    def __init__(self, words: list[str], environment: dict[str, str]):
        self.lines: collections.deque[str] = collections.deque(maxlen=2000)
        guard = [sys.executable, "-m", "rollcall_ray.guard", str(GUARD_SECONDS), *words]
        self.guard = subprocess.Popen(
            guard,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            text=True,
            errors="replace",
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for line in self.guard.stdout:
            self.lines.append(line.rstrip("\n"))

    def take_lines(self) -> list[str]:
        """What it has printed since this was last asked; the newest 2,000 lines of it."""
        return [self.lines.popleft() for _ in range(len(self.lines))]

    def code(self) -> int | None:
        code = self.guard.poll()
        if code is not None:
            self.reader.join(1)
        return code

    def stop(self) -> None:
        self.guard.send_signal(signal.SIGTERM)
        try:
            self.guard.wait(GUARD_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self.guard.kill()
