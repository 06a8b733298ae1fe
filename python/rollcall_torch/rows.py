"""Rows of unlike lengths become one run of tokens: nothing is computed for padding, and a shared prompt once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import TrainerError


@dataclass(frozen=True)
class Image:
    """What a model's processor makes of an image."""

    # [patches, numbers of a patch], and time, height and width in patches.
    pixels: np.ndarray
    grid: np.ndarray


@dataclass(frozen=True)
class Picture:
    """An image in a row: it fills the placeholders from `start` up to `end`."""

    start: int
    end: int
    image: Image


@dataclass(frozen=True)
class Row:
    ids: np.ndarray
    # 1 at positions whose outputs are asked for. Position 0 has nothing before it and is never a target.
    targets: np.ndarray
    # The row's first tokens equal those of an earlier row; -1 and 0 where they do not.
    prefix_row: int = -1
    prefix_length: int = 0
    # Where the row shows images: [tokens, 3] positions in time, row and column, and the images.
    places: np.ndarray | None = None
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Packing:
    # What is computed: each row's tokens after its prefix, up to the last one that a target needs.
    ids: np.ndarray
    positions: np.ndarray
    # Rows with tokens, for attention: where they lie in `ids`. A row's prefix lies in another row's tokens.
    row_start: np.ndarray
    row_length: np.ndarray
    prefix_start: np.ndarray
    prefix_length: np.ndarray
    # Targets, row by row: where the predicting state lies in `ids`, and the id it should predict.
    target_states: np.ndarray
    target_ids: np.ndarray
    # Where rows show images: [3, tokens], the images, and which of their states, one after another, stands at which token.
    places: np.ndarray | None = None
    images: tuple[Image, ...] = ()
    image_at: np.ndarray | None = None
    image_from: np.ndarray | None = None


def rows_from(arrays: dict[str, np.ndarray]) -> list[Row]:
    """Rows as they come: `ids` and `targets` of all rows one after another, with `lengths` and `prefixes` [row, length]."""
    missing = {"ids", "targets", "lengths", "prefixes"} - arrays.keys()
    if missing:
        raise TrainerError(f"rows lack {', '.join(sorted(missing))}")
    lengths, prefixes = arrays["lengths"], arrays["prefixes"]
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if (lengths < 0).any() or total != len(arrays["ids"]) or total != len(arrays["targets"]):
        raise TrainerError(f"lengths of {total} tokens for {len(arrays['ids'])} ids and {len(arrays['targets'])} targets")
    if prefixes.shape != (len(lengths), 2):
        raise TrainerError(f"prefixes have shape {prefixes.shape}; {(len(lengths), 2)} is needed")
    pictures = pictures_from(arrays, len(lengths))
    return [
        Row(
            arrays["ids"][end - length : end],
            arrays["targets"][end - length : end],
            int(prefixes[index, 0]),
            int(prefixes[index, 1]),
            arrays["places"][end - length : end] if "places" in arrays else None,
            pictures[index],
        )
        for index, (length, end) in enumerate(zip(lengths.tolist(), ends.tolist()))
    ]


def pictures_from(arrays: dict[str, np.ndarray], rows: int) -> list[tuple[Picture, ...]]:
    """`pixels` of all images one after another with their `grids`; `shows` says [row, first token, tokens, image]."""
    pictures: list[list[Picture]] = [[] for _ in range(rows)]
    if "shows" in arrays:
        grids = arrays["grids"]
        ends = np.cumsum(grids.prod(1))
        if len(arrays["places"]) != len(arrays["ids"]) or ends[-1] != len(arrays["pixels"]):
            raise TrainerError(f"{len(arrays['pixels'])} patches and {len(arrays['places'])} places do not fit grids and ids")
        images = [Image(arrays["pixels"][end - grid.prod() : end], grid) for grid, end in zip(grids, ends)]
        for row, start, tokens, image in arrays["shows"].tolist():
            pictures[row].append(Picture(start, start + tokens, images[image]))
    return [tuple(shown) for shown in pictures]


def check_rows(rows: list[Row], vocabulary: int, context_tokens: int) -> None:
    for index, row in enumerate(rows):
        check_row(rows, index, row, vocabulary, context_tokens)


def check_row(rows: list[Row], index: int, row: Row, vocabulary: int, context_tokens: int) -> None:
    def wrong(what: str) -> TrainerError:
        return TrainerError(f"row {index}: {what}")

    if len(row.ids) == 0:
        raise wrong("it has no ids")
    if len(row.ids) > context_tokens:
        raise wrong(f"{len(row.ids)} tokens are more than the model's context of {context_tokens}")
    bad = np.flatnonzero((row.ids < 0) | (row.ids >= vocabulary))
    if len(bad):
        raise wrong(f"ids[{bad[0]}] is {row.ids[bad[0]]}; the vocabulary has {vocabulary} ids")
    if row.targets[0]:
        raise wrong("position 0 is a target, but nothing stands before it to predict it")
    if (row.targets > 1).any():
        raise wrong("targets are 0 or 1")
    if row.prefix_row < 0:
        return
    if row.prefix_row >= index:
        raise wrong(f"prefix.row is {row.prefix_row}; an earlier row is needed")
    other, length = rows[row.prefix_row].ids, row.prefix_length
    if length < 0 or length > len(row.ids) or length > len(other):
        raise wrong(f"prefix.length is {length}; the rows have {len(row.ids)} and {len(other)} ids")
    unlike = np.flatnonzero(row.ids[:length] != other[:length])
    if len(unlike):
        at = unlike[0]
        raise wrong(f"ids[{at}] is {row.ids[at]}, but row {row.prefix_row} has {other[at]}: no shared prefix")
    own, others = (
        [(picture.start, id(picture.image)) for picture in shown if picture.start < length]
        for shown in (row.pictures, rows[row.prefix_row].pictures)
    )
    if own != others:
        raise wrong(f"its first {length} tokens show other images than those of row {row.prefix_row}: no shared prefix")


def pack(rows: list[Row]) -> Packing:
    """Expects rows that `check_rows` has passed."""
    roots = resolve_prefixes(rows)
    used = [int(np.flatnonzero(row.targets)[-1]) if row.targets.any() else 0 for row in rows]
    shared = [min(length, used[index]) for index, (_, length) in enumerate(roots)]
    for (root, length), own in zip(roots, shared):
        if length > 0:
            used[root] = max(used[root], own)
    computed = [max(0, end - own) for end, own in zip(used, shared)]
    start = np.concatenate([[0], np.cumsum(computed)]).astype(np.int64)[:-1]
    active = [index for index, count in enumerate(computed) if count > 0]

    states, ids = [], []
    for index, row in enumerate(rows):
        at = np.flatnonzero(row.targets)
        before = at - 1
        in_prefix = before < shared[index]
        root_start = start[roots[index][0]] if shared[index] else 0
        states.append(np.where(in_prefix, root_start + before, start[index] + before - shared[index]))
        ids.append(row.ids[at])
    return Packing(
        **sight(rows, [(index, shared[index], used[index]) for index in active]),
        ids=join([rows[index].ids[shared[index] : used[index]] for index in active]),
        positions=join([np.arange(shared[index], used[index]) for index in active]),
        row_start=np.array([start[index] for index in active], np.int64),
        row_length=np.array([computed[index] for index in active], np.int64),
        prefix_start=np.array([start[roots[index][0]] if shared[index] else 0 for index in active], np.int64),
        prefix_length=np.array([shared[index] for index in active], np.int64),
        target_states=join(states),
        target_ids=join(ids),
    )


def sight(rows: list[Row], spans: list[tuple[int, int, int]]) -> dict[str, Any]:
    """What `Packing` holds of images, for the tokens from `begin` to `end` of each row."""
    if all(row.places is None for row in rows):
        return {}
    images: dict[int, Image] = {}
    first: dict[int, int] = {}
    places, at, source, tokens, states = [], [], [], 0, 0
    for index, begin, end in spans:
        row = rows[index]
        text = np.repeat(np.arange(len(row.ids))[:, None], 3, 1)
        places.append((text if row.places is None else row.places)[begin:end])
        for picture in row.pictures:
            shown = np.arange(max(begin, picture.start), min(end, picture.end))
            if len(shown) == 0:
                continue
            if id(picture.image) not in images:
                images[id(picture.image)], first[id(picture.image)] = picture.image, states
                states += picture.end - picture.start
            at.append(tokens + shown - begin)
            source.append(first[id(picture.image)] + shown - picture.start)
        tokens += end - begin
    return {
        "places": np.concatenate(places).T.astype(np.int64) if places else np.zeros((3, 0), np.int64),
        "images": tuple(images.values()),
        "image_at": join(at),
        "image_from": join(source),
    }


def resolve_prefixes(rows: list[Row]) -> list[tuple[int, int]]:
    """Whose tokens a row's first tokens are. A prefix is one stretch of one row, so where the prefix row has a
    prefix itself, only what both have from the first row is shared."""
    resolved: list[tuple[int, int]] = []
    for row in rows:
        if row.prefix_row < 0:
            resolved.append((-1, 0))
            continue
        root, length = resolved[row.prefix_row]
        resolved.append((root, min(length, row.prefix_length)) if length else (row.prefix_row, row.prefix_length))
    return resolved


def join(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
