"""A checkpoint that is being written while the trainer goes on."""

import threading
from typing import Callable


class Saving:
    """The thread ends with the process: a folder that it was writing keeps its partial names, which nothing reads."""

    def __init__(self, write: Callable[[], None]):
        self.error: BaseException | None = None
        self.write = write
        self.thread = threading.Thread(target=self.run, name="checkpoint", daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            self.write()
        except BaseException as error:  # told by the next call that asks; torch's CheckpointException is no Exception
            self.error = error

    @property
    def done(self) -> bool:
        return not self.thread.is_alive()

    def wait(self) -> None:
        self.thread.join()
