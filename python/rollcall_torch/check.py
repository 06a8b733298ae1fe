"""What this machine can do, for `rollcall torch check`."""

import importlib.util
import platform
from typing import Any

import torch
import transformers

from . import __version__, attention


def describe_machine() -> dict[str, Any]:
    devices = []
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        free, total = torch.cuda.mem_get_info(number)
        devices.append(
            {
                "name": properties.name,
                "capability": f"{properties.major}.{properties.minor}",
                "bytes": total,
                "freeBytes": free,
                "attention": attention.choose(torch.device("cuda", number), torch.bfloat16),
            }
        )
    return {
        "version": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "devices": devices,
        "threads": torch.get_num_threads(),
        "flashAttention": importlib.util.find_spec("flash_attn") is not None,
        "compiles": importlib.util.find_spec("triton") is not None,
    }
