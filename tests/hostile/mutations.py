"""Seeded damage: of bytes, and of single fields of JSON."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

Rng = np.random.Generator

HOSTILE: list[Any] = [
    None, True, False, -1, 0, 1, 3, 10**12, 2**63, -(2**63), 1e308, float("nan"), float("inf"), "", "x", "x" * 300,
    "../../etc/passwd", "\udcff", "<U100000000", "0\n1", [], {}, [[]], [None], {"": None}, [1, "a", None],
    {"__ndarray__": "<U100000000", "values": ["a", "b"]}, {"__ndarray__": "|O", "values": [[1], {}]},
    {"__ndarray__": "V8", "values": [1]}, {"__ndarray__": "2000000000f4", "values": [1]},
    {"__ndarray__": "<f8", "values": ["a"]}, {"__ndarray__": "<i8", "values": [2**70]},
]  # fmt: skip


def damaged(rng: Rng, data: bytes) -> bytes:
    """Bytes flipped, cut, repeated, removed, zeroed or overwritten, once to four times."""
    for _ in range(int(rng.integers(1, 5))):
        data = _damaged_once(rng, bytearray(data))
    return bytes(data)


def _damaged_once(rng: Rng, data: bytearray) -> bytes:
    if not data:
        return bytes(rng.integers(0, 256, 5, dtype=np.uint8))
    # Most formats begin with what matters: half of the damage is done there.
    start = int(rng.integers(0, min(len(data), 200) if rng.random() < 0.5 else len(data)))
    length = int(min(len(data) - start, 1 + rng.geometric(0.1)))
    kind = rng.integers(0, 7)
    if kind <= 1:
        data[start] ^= 1 << int(rng.integers(0, 8))
    elif kind == 2:
        del data[start:]
    elif kind == 3:
        data[start : start + length] = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
    elif kind == 4:
        data[start:start] = data[start : start + length] * int(rng.integers(1, 4))
    elif kind == 5:
        del data[start : start + length]
    else:
        data[start : start + length] = rng.choice([b"\0", b"\xff", b"9", b"-", b"(", b"\n"]) * length
    return bytes(data)


def changed(rng: Rng, value: Any) -> Any:
    """A copy of a JSON value in which one to three fields were replaced, removed, renamed or repeated."""
    holder = {"": copy.deepcopy(value)}
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(holder))
        around, key = places[int(rng.integers(0, len(places)))]
        kind = rng.integers(0, 6)
        if kind <= 3:
            around[key] = copy.deepcopy(HOSTILE[int(rng.integers(0, len(HOSTILE)))])
        elif kind == 4 and around is not holder:
            del around[key]
        elif isinstance(around, list):
            around.append(copy.deepcopy(around[key]))
        elif around is not holder:
            around[f"{key}x"] = around.pop(key)
    return holder[""]


def _places(value: Any) -> Any:
    """All pairs of a container and a key in it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list) and value[key]:
            yield from _places(value[key])


def changed_json(rng: Rng, data: bytes) -> bytes:
    """JSON with a field changed; one time in four its bytes are damaged instead."""
    if rng.random() < 0.25:
        return damaged(rng, data)
    return json.dumps(changed(rng, json.loads(data))).encode()


def changed_array(rng: Rng, array: np.ndarray) -> np.ndarray:
    """An array of another shape, type or order, or with other values."""
    kind = rng.integers(0, 7)
    if kind == 0:
        return array[: max(0, len(array) - 1)] if array.ndim else array
    if kind == 1:
        return array.astype(rng.choice(["<f2", "<f8", "<i4", "|u1", "|b1"]))
    if kind == 2:
        return array.reshape(-1)
    if kind == 3:
        return np.asarray(array.T)
    if kind == 4:
        return np.full_like(array, rng.choice([np.nan, np.inf, 1e38, -1]) if array.dtype.kind == "f" else 7)
    return np.concatenate([array, array]) if kind == 5 and array.ndim else array[..., None]
