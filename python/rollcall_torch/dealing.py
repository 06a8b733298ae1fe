"""Which rank computes which rows, in which micro-batch. Every rank works this out alone, with the same result."""

from dataclasses import dataclass, replace

import numpy as np

from .rows import Row


@dataclass(frozen=True)
class MicroBatch:
    rows: list[Row]
    # Numbers of the rows in the call; empty where a rank computes only to keep step with the others.
    indices: list[int]


# A rank without rows computes one token, whose gradient is zero, so that every rank takes part in every exchange.
FILLER = MicroBatch([Row(np.zeros(2, np.int32), np.array([0, 1], np.uint8))], [])


def deal(rows: list[Row], ranks: int, tokens: int) -> list[list[MicroBatch]]:
    """Per rank its micro-batches of at most `tokens` tokens, the same number on each. Rows that share a prompt stay
    together where there are families enough for every rank. Rows that no target needs are left out."""
    families = group_families(rows)
    if len(families) < ranks:
        families = [[index] for index in range(len(rows))]
    parts = [part for family in families for part in split_family(rows, family, tokens)]
    families = [part for part in parts if any(rows[index].targets.any() for index in part)]
    shares: list[list[list[int]]] = [[] for _ in range(ranks)]
    loads = [0.0] * ranks
    for family in sorted(families, key=lambda family: -cost(rows, family)):
        rank = loads.index(min(loads))
        shares[rank].append(family)
        loads[rank] += cost(rows, family)
    dealt = [fill(rows, share, tokens) for share in shares]
    most = max((len(batches) for batches in dealt), default=0)
    return [batches + [FILLER] * (most - len(batches)) for batches in dealt]


def group_families(rows: list[Row]) -> list[list[int]]:
    families: list[list[int]] = []
    family_of: list[int] = []
    for index, row in enumerate(rows):
        if row.prefix_row >= 0:
            family_of.append(family_of[row.prefix_row])
        else:
            family_of.append(len(families))
            families.append([])
        families[family_of[-1]].append(index)
    return families


def split_family(rows: list[Row], family: list[int], tokens: int) -> list[list[int]]:
    """Parts of a family that fit; each part computes the shared prompt again."""
    parts: list[list[int]] = []
    for index in family:
        if parts and computed_tokens(rows, [*parts[-1], index]) <= tokens:
            parts[-1].append(index)
        else:
            parts.append([index])
    return parts


def fill(rows: list[Row], families: list[list[int]], tokens: int) -> list[MicroBatch]:
    """Longest first, each into the first micro-batch with room."""
    batches: list[list[int]] = []
    room: list[int] = []
    for family in families:
        size = computed_tokens(rows, family)
        place = next((at for at, left in enumerate(room) if size <= left), None)
        if place is None:
            batches.append([])
            room.append(tokens)
            place = len(batches) - 1
        batches[place].extend(family)
        room[place] -= size
    return [micro_batch(rows, sorted(indices)) for indices in batches]


def micro_batch(rows: list[Row], indices: list[int]) -> MicroBatch:
    """Rows with their prefixes renumbered. A row whose prefix row is elsewhere takes the first row here that has the
    same prefix, else none."""
    place = {index: at for at, index in enumerate(indices)}
    stand_in: dict[int, tuple[int, int]] = {}
    chosen = []
    for at, index in enumerate(indices):
        row = rows[index]
        if row.prefix_row < 0:
            chosen.append(row)
        elif row.prefix_row in place:
            chosen.append(replace(row, prefix_row=place[row.prefix_row]))
        elif row.prefix_row in stand_in:
            root, length = stand_in[row.prefix_row]
            chosen.append(replace(row, prefix_row=root, prefix_length=min(length, row.prefix_length)))
        else:
            stand_in[row.prefix_row] = (at, row.prefix_length)
            chosen.append(replace(row, prefix_row=-1, prefix_length=0))
    return MicroBatch(chosen, indices)


def computed_tokens(rows: list[Row], indices: list[int]) -> int:
    chosen = micro_batch(rows, indices).rows
    return sum(len(row.ids) - row.prefix_length for row in chosen)


def cost(rows: list[Row], indices: list[int]) -> float:
    """Tokens, plus attention's part that grows with their length: equal at about 16k tokens of a usual model."""
    chosen = micro_batch(rows, indices).rows
    own = ((len(row.ids) - row.prefix_length, len(row.ids)) for row in chosen)
    return sum(tokens * (1 + length / 16384) for tokens, length in own)
