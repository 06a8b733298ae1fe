"""Errors that travel to the client by name. Their messages say what is wrong, with the value, and what would be right."""


class ConfigError(Exception):
    """An option, file or combination that cannot work."""


class TrainerError(Exception):
    """The trainer refused what it was asked."""


class ProtocolError(Exception):
    """Bytes that are not the protocol. The connection ends."""


class Abandoned(Exception):
    """The client does not want the answer any more."""


class OutOfMemory(Exception):
    """The state of the models is lost; the group must be started again with fewer than these tokens at once."""

    def __init__(self, tokens: int, why: object):
        super().__init__(f"{tokens} tokens at once do not fit: {why}")
        self.tokens = tokens
