"""The fused kernels against float64, run by Triton's interpreter, and what of them compiles for a GPU that is not here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
CHECK = Path(__file__).with_name("fused_check.py")


@pytest.mark.parametrize("part", ["gate", "rotation", "head", "kept", "model", "compiles"])
def test_fused_kernels(part: str):
    """In a process of its own: Triton reads TRITON_INTERPRET once, when it is imported."""
    interpreted = {} if part == "compiles" else {"TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, str(CHECK), part], env={**os.environ, **interpreted}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
