import numpy as np
import pytest

from rollcall_torch.dealing import computed_tokens, deal
from rollcall_torch.rows import Row, check_rows, pack


def random_rows(random: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    for _ in range(int(random.integers(1, 7))):
        prompt = random.integers(0, 50, int(random.integers(1, 20)))
        first = len(rows)
        for attempt in range(int(random.integers(1, 6))):
            ids = np.concatenate([prompt, random.integers(0, 50, int(random.integers(1, 30)))]).astype(np.int32)
            targets = (random.random(len(ids)) < 0.4).astype(np.uint8)
            targets[: len(prompt)] = 0
            targets[0] = 0
            shares = attempt > 0 and random.random() < 0.8
            rows.append(Row(ids, targets, first if shares else -1, len(prompt) if shares else 0))
    return rows


@pytest.mark.parametrize("seed", range(50))
def test_every_row_with_targets_is_dealt_once_and_every_rank_has_as_many_micro_batches(seed: int):
    random = np.random.default_rng(seed)
    rows = random_rows(random)
    check_rows(rows, 50, 1000)
    ranks, tokens = int(random.integers(1, 5)), int(random.integers(50, 200))
    dealt = deal(rows, ranks, tokens)
    assert len({len(batches) for batches in dealt}) == 1
    indices = [index for batches in dealt for batch in batches for index in batch.indices]
    assert len(indices) == len(set(indices))
    assert {index for index, row in enumerate(rows) if row.targets.any()} <= set(indices)
    for batches in dealt:
        for batch in batches:
            check_rows(batch.rows, 50, 1000)
            assert len(batch.indices) <= 1 or computed_tokens(rows, batch.indices) <= tokens


@pytest.mark.parametrize("seed", range(50))
def test_packed_tokens_spell_each_row_up_to_its_last_target(seed: int):
    """Read back through prefix and own tokens, as attention sees them."""
    rows = random_rows(np.random.default_rng(seed))
    packing = pack(rows)
    seen = {}
    for start, length, prefix_start, prefix in zip(
        packing.row_start, packing.row_length, packing.prefix_start, packing.prefix_length
    ):
        ids = np.concatenate([packing.ids[prefix_start : prefix_start + prefix], packing.ids[start : start + length]])
        assert np.array_equal(packing.positions[start : start + length], np.arange(prefix, prefix + length))
        assert np.array_equal(packing.positions[prefix_start : prefix_start + prefix], np.arange(prefix))
        for own in range(start, start + length):
            seen[own] = ids[: packing.positions[own] + 1]
    at = 0
    for row in rows:
        for position in np.flatnonzero(row.targets):
            assert np.array_equal(seen[packing.target_states[at]], row.ids[:position])
            assert packing.target_ids[at] == row.ids[position]
            at += 1
    assert at == len(packing.target_states)
