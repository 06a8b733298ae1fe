import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def group():
    """One rank, in this process."""
    from rollcall_torch.group import Group

    alone = Group("cpu")
    yield alone
    alone.close()
