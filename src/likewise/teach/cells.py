"""A large gallery in cells of similar rows, so that a lesson looks only at those that it may reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likewise.search.rank import Exact

CENTRES = 1_000  # cells: each is a thousandth of the gallery, and finding them costs a product per row and centre
AROUND = 3  # cells that an example may reach, beside those of similar rows
_BLOCK = 1 << 16  # rows assigned at a time


@dataclass(frozen=True)
class Cells:
    """Rows by the nearest of some centres: cell i has the rows order[starts[i]:starts[i + 1]]."""

    centres: Exact
    order: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, directions: Callable[[slice], np.ndarray], n: int) -> Self:
        """Cells of n unit rows, which `directions` gives by ranges; the centres are some of the rows Z."""
        centres = Exact(Z[np.unique(np.linspace(0, len(Z) - 1, CENTRES).astype(int))])
        cell = np.empty(n, np.int32)
        for start in range(0, n, _BLOCK):
            part = slice(start, min(n, start + _BLOCK))
            cell[part] = centres.candidates(np.ascontiguousarray(directions(part), np.float32), 1)[:, 0]
        starts = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(centres)))])
        return cls(centres, np.argsort(cell, kind="stable").astype(np.int32), starts)

    @classmethod
    def of_lists(cls, index: Any) -> Self:
        """The inverted lists of a faiss index: they are such cells, and need not be found again."""
        import faiss

        lists = index.invlists
        rows = [faiss.rev_swig_ptr(lists.get_ids(i), lists.list_size(i)) for i in range(lists.nlist)]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in rows])])
        return cls(Exact(index.quantizer.reconstruct_n(0, lists.nlist)), np.concatenate(rows).astype(np.int32), starts)

    def around(self, near: np.ndarray, examples: np.ndarray) -> np.ndarray:
        """Rows of the cells of some unit rows, and of the first few cells of examples, in ascending order."""
        found = [np.empty(0, np.int64)]
        for Z, k in ((near, 1), (examples, min(AROUND, len(self.centres)))):
            if len(Z):
                found.append(self.centres.candidates(np.ascontiguousarray(Z, np.float32), k).ravel())
        parts = [self.order[self.starts[i] : self.starts[i + 1]] for i in np.unique(np.concatenate(found))]
        return np.sort(np.concatenate([np.empty(0, np.int32), *parts])).astype(np.int64)
