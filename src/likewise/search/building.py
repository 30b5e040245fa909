"""Building a large index in steps that are kept: one that was killed goes on where it was, to the same result.

A folder beside the index holds the vectors computed so far, the trained lists and codes, and parts of the lists, each
of which is there as a whole or not at all. It belongs to one gallery, model and kind; for another, be it by a single
row, it is begun anew.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.search.approximate import BLOCK, suited_lists, training_rows, untrained
from likewise.search.gallery import embed_blocks, in_float
from likewise.utils.files import atomic_write, make_folder, reserve
from likewise.utils.progress import progress_bar

_PART = 10 * BLOCK  # vectors of a part of the lists
_STATE, _VECTORS, _TRAINED = "state.json", "vectors.npy", "trained.faiss"
_SAMPLE = 64  # rows that tell models apart
_OURS = re.compile(r"state\.json|vectors\.npy|trained\.faiss|part-\d{5}\.faiss|\..+\.tmp")


class Workspace:
    """What has been computed of an index so far, in a folder of its own."""

    def __init__(self, folder: Path, of: dict[str, Any]) -> None:
        self.folder, self._of, self._done = folder, of, 0

    @classmethod
    def of(cls, folder: Path, model: SimilarityModel, raw: np.ndarray, kind: str | bool) -> Self:
        """Go on with what is in a folder, or begin anew if it is of another gallery, model or kind."""
        made = cls(folder, {"rows": len(raw), "kind": kind, "of": _digest(model, raw)})
        if folder.exists() and not made._is_ours():
            raise LikewiseError(f"{folder} is there and was not made by likewise index; move it away")
        known = made._read_state()
        if {name: known.get(name) for name in made._of} == made._of:
            made._done = int(known.get("done", 0))
        else:
            made.remove()
            make_folder(folder)
            made._write_state()
        return made

    def _is_ours(self) -> bool:
        """Whether the folder has our names alone, and the one that is written first; or nothing yet."""
        names = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else {"a file"}
        begun = _STATE in names or all(name.startswith(".") for name in names)
        return begun and all(_OURS.fullmatch(name) for name in names)

    def _read_state(self) -> dict[str, Any]:
        try:
            state = json.loads((self.folder / _STATE).read_bytes())
            return state if isinstance(state, dict) else {}
        except (OSError, ValueError):
            return {}

    def _write_state(self) -> None:
        atomic_write(self.folder / _STATE, json.dumps({**self._of, "done": self._done}).encode())

    def remove(self) -> None:
        """Remove the folder: the index has been saved."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def vectors(self, model: SimilarityModel, raw: np.ndarray, verbose: int = 0) -> np.ndarray:
        """The gallery side of the rows, mapped from a file; rows that were done before are not transformed again."""
        path = self.folder / _VECTORS
        width = model.transform(in_float(np.asarray(raw[:1]))).shape[1]
        if not self._done or not path.exists():
            self._done = 0
            np.lib.format.open_memmap(path, "w+", np.float32, (len(raw), width))
            _reserved(path)
        out = np.lib.format.open_memmap(path, "r+")
        with progress_bar("indexing", len(raw), enabled=bool(verbose)) as advance:
            advance(self._done)
            while self._done < len(raw):
                end = min(len(raw), self._done + BLOCK)
                embed_blocks(model, raw[self._done : end], out[self._done : end], self._done)
                out.flush()
                advance(end - self._done)
                self._done = end
                self._write_state()
        return np.lib.format.open_memmap(path, "r")

    def lists(self, V: np.ndarray, kind: str, verbose: int = 0) -> Any:
        """The faiss index of the vectors, from parts that are built one after the other."""
        import faiss

        trained = self.folder / _TRAINED
        if not trained.exists():
            empty = untrained(kind, *V.shape)
            empty.train(training_rows(V, kind, empty.nlist))
            atomic_write(trained, faiss.serialize_index(empty).tobytes())
        index: Any = faiss.read_index(os.fspath(trained))
        with progress_bar("lists", len(V), enabled=bool(verbose)) as advance:
            for start in range(0, len(V), _PART):
                index.merge_from(self._part(V, start), 0)
                advance(min(_PART, len(V) - start))
        index.nprobe = suited_lists(index, V, kind)
        return index

    def _part(self, V: np.ndarray, start: int) -> Any:
        import faiss

        path = self.folder / f"part-{start // _PART:05d}.faiss"
        if not path.exists():
            part: Any = faiss.read_index(os.fspath(self.folder / _TRAINED))
            for first in range(start, min(len(V), start + _PART), BLOCK):
                block = np.ascontiguousarray(V[first : min(len(V), first + BLOCK)], dtype=np.float32)
                part.add_with_ids(block, np.arange(first, first + len(block)))
            atomic_write(path, faiss.serialize_index(part).tobytes())
        return faiss.read_index(os.fspath(path))


def _digest(model: SimilarityModel, raw: np.ndarray) -> str:
    """What names a gallery, by all of its rows, and a model, by what it makes of some."""
    found = hashlib.sha256()
    for start in range(0, len(raw), BLOCK):
        found.update(np.ascontiguousarray(raw[start : start + BLOCK]).data)
    rows = np.asarray(raw[np.unique(np.linspace(0, len(raw) - 1, _SAMPLE).astype(int))])
    found.update(np.ascontiguousarray(model.transform(in_float(rows))).data)
    return found.hexdigest()


def _reserved(path: Path) -> None:
    try:
        reserve(path)
    except OSError as error:
        raise LikewiseError(f"cannot write {path}: {error.strerror or error}") from error
