"""The pictures of an index as words see them: their rows, their neighbours, and the bridge learned from their texts.

All of it follows from the index in force, so it is computed on first use, kept in the folder of the index, and computed
again after a lesson.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.rows.npy import Archive
from likewise.search.index import BaseIndex
from likewise.utils.files import atomic_write
from likewise.words.base import TextSide
from likewise.words.bridge import Bridge, best_is_one, fit_bridge, pairs_of

FILE = "words.npz"
VERSION = 1  # of what is computed below: increase when it changes
NEIGHBOURS = 5  # whose mean score is added to that of a picture: mAP of class names .57 to .60 on half of Caltech101
MOST_NEIGHBOURED = 50_000  # pictures: finding the neighbours of all takes minutes then
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class WordGallery:
    """Rows of the pictures, weights of their neighbours (n, n), and the bridge; None where there is none.

    `bridged` are the rows of the pictures for the bridge.
    """

    rows: Any
    neighbours: sp.csr_matrix | None
    bridge: Bridge | None
    bridged: np.ndarray | None = None

    @classmethod
    def of(cls, index: BaseIndex, side: TextSide, texts: list[list[str]]) -> WordGallery:
        """From the file in the folder of the index, if it is of this very state; else computed, and kept there."""
        key = _key(index, side, texts)
        found = None if index.folder is None else _read(index.folder / FILE, key, len(index))
        if found is None:
            found = _computed(index, side, texts)
            if index.folder is not None:
                with suppress(LikewiseError, OSError):  # a folder that cannot be written is no reason not to search it
                    _write(index.folder / FILE, key, found)
        return cls.made(index, *found)

    @classmethod
    def made(cls, index: BaseIndex, rows: Any, neighbours: sp.csr_matrix | None, bridge: Bridge | None) -> WordGallery:
        """From its parts, with the rows of the pictures for the bridge."""
        return cls(rows, neighbours, bridge, None if bridge is None else bridge.pictures(np.asarray(index.raw)))

    def scores(self, phrases: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """Scores of all pictures for phrases given by their rows and embeddings, (n, pictures)."""
        S = _start(self.rows, self.neighbours, phrases)
        if self.bridge is None or self.bridged is None:
            return S
        return best_is_one(S) + self.bridge.queries(sentences) @ self.bridged.T


_Parts = tuple[Any, sp.csr_matrix | None, Bridge | None]


def _start(rows: Any, neighbours: sp.csr_matrix | None, phrases: np.ndarray) -> np.ndarray:
    S = np.asarray(rows @ phrases.T, np.float32)
    return (S if neighbours is None else S + neighbours @ S).T


def _computed(index: BaseIndex, side: TextSide, texts: list[list[str]]) -> _Parts:
    rows, neighbours = side.pictures(np.asarray(index.raw)), _neighbours(index)
    return rows, neighbours, learned_bridge(index.raw, side, texts, rows, neighbours)


def learned_bridge(
    raw: np.ndarray, side: TextSide, texts: list[list[str]], rows: Any, neighbours: sp.csr_matrix | None
) -> Bridge | None:
    """What the texts of items teach beyond the start; None without texts."""
    names, of_text, of_item = pairs_of(texts)
    if not names:
        return None
    items = np.unique(of_item)
    Y = np.zeros((len(names), len(items)), np.float32)
    Y[of_text, np.searchsorted(items, of_item)] = 1
    started = [
        best_is_one(_start(rows, neighbours, side.phrases(names[at : at + _BLOCK])))[:, items]
        for at in range(0, len(names), _BLOCK)
    ]
    X = np.asarray(raw[items], np.float32)
    return fit_bridge(side.sentences(names), X, Y, np.concatenate(started))


def _neighbours(index: BaseIndex) -> sp.csr_matrix | None:
    """Weights of the nearest pictures of each picture under the similarity in force; each row sums to one."""
    n = len(index)
    if not NEIGHBOURS < n <= MOST_NEIGHBOURED or index.model.n_features_in_ != index.raw.shape[1]:
        return None
    hits = index.search(rows=np.arange(n), k=NEIGHBOURS)
    near, weights = hits.rows, np.maximum(hits.scores, 1e-9) * (hits.rows >= 0)  # an approximate index may find fewer
    weights /= weights.sum(axis=1, keepdims=True)
    ends = np.arange(0, near.size + 1, near.shape[1])
    return sp.csr_matrix((weights.ravel().astype(np.float32), np.maximum(near, 0).ravel(), ends), (n, n))


# ---------------------------------------------------------------------------------------------------------------------
# The file: arrays without pickle, and the key of the state that they were computed from


def _key(index: BaseIndex, side: TextSide, texts: list[list[str]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((VERSION, side.identity, index.raw.shape, texts)).encode("utf-8", "surrogatepass"))
    for values in (index.vectors, index.raw):
        for start in range(0, len(values), 8192):
            digest.update(np.ascontiguousarray(values[start : start + 8192]).tobytes())
    return digest.hexdigest()


def _write(path: Path, key: str, parts: _Parts) -> None:
    rows, neighbours, bridge = parts
    arrays: dict[str, Any] = {"key": np.array(key), **_packed("rows", rows), **_packed("neighbours", neighbours)}
    if bridge is not None:
        found = {field.name: getattr(bridge, field.name) for field in fields(bridge)}
        arrays |= {f"bridge.{name}": np.asarray(value) for name, value in found.items() if value is not None}
    data = io.BytesIO()
    np.savez(data, **arrays)
    atomic_write(path, data.getvalue())


def _read(path: Path, key: str, n: int) -> _Parts | None:
    """What the file holds; None if it is missing, damaged, or of another state of the index."""
    try:
        with Archive(path) as saved:
            if str(saved.read("key")) != key:
                return None
            bridge: dict[str, Any] = {
                name.partition(".")[2]: saved.read(name) for name in saved.keys if name.startswith("bridge.")
            }
            rows, neighbours = (_unpacked(saved, name, n) for name in ("rows", "neighbours"))
            return rows, neighbours, _bridge(bridge) if bridge else None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _bridge(parts: dict[str, Any]) -> Bridge:
    m, d = len(parts["sentences"]), len(parts["mean"])
    if not parts["belongs"].shape == parts["mixed"].shape == (d, m):
        raise ValueError("its sides differ in width")
    for name in ("strength", "gain"):
        if name in parts:
            parts[name] = tuple(parts[name].tolist())
    return Bridge(**parts)


def _packed(name: str, values: Any) -> dict[str, Any]:
    if values is None:
        return {}
    if not sp.issparse(values):
        return {name: values}
    return {f"{name}.{part}": getattr(values, part) for part in ("data", "indices", "indptr")} | {
        f"{name}.width": np.array(values.shape[1])
    }


def _unpacked(saved: Archive, name: str, n: int) -> Any:
    if f"{name}.data" not in saved.keys:
        return saved.read(name) if name in saved.keys else None
    parts = tuple(saved.read(f"{name}.{part}") for part in ("data", "indices", "indptr"))
    found = sp.csr_matrix(parts, (n, int(saved.read(f"{name}.width"))))
    found.check_format(full_check=True)
    return found
