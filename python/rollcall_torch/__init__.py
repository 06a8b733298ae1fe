"""Rollcall's trainer on PyTorch. `python -m rollcall_torch` starts a worker; docs/torch-protocol.md is its protocol."""

__version__ = "0.1.0"
