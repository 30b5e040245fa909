"""Approximate engines: their measured recall, their choice, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.search import Index, approximate
from likewise.search.approximate import Approximate, measured_recall
from likewise.search.rank import Exact, best_rows


@pytest.mark.parametrize("kind", ["hnsw", "ivf", "ivfpq", True])
def test_the_recall_of_an_approximate_index_is_measured(index: Index, kind: Any) -> None:
    built = Approximate(index.vectors, kind)
    recall = measured_recall(built, index.vectors[:100])
    exact, result = (best_rows(engine, index.vectors[:100], 10)[0] for engine in (Exact(index.vectors), built))
    assert recall == np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact.tolist(), result.tolist(), strict=True)])
    assert 0.5 < recall <= 1
    assert built.kind == ("hnsw" if kind is True else kind)


def test_auto_is_exact_unless_a_search_takes_too_long(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Index.build(index.model, index.raw, approximate="auto", n_neighbors=0)
    assert (built.approximate, built.recall) == (False, None)
    monkeypatch.setattr(approximate, "EXACT_SECONDS", 0)
    built = Index.build(index.model, index.raw, approximate="auto", n_neighbors=0)
    assert built.approximate == "hnsw"
    assert built.recall is not None


def test_lists_are_looked_into_until_nearly_all_is_found(index: Index) -> None:
    built = Approximate(index.vectors, "ivf")
    assert measured_recall(built, index.vectors[::3]) > approximate.GOOD - 0.05
    assert built.index.nprobe < built.index.nlist


@pytest.mark.parametrize("kind", ["ivf", "ivfpq"])
def test_lists_that_are_mapped_from_a_file_can_be_saved_again(index: Index, kind: str, tmp_path: Path) -> None:
    built = Index.build(index.model, index.raw, approximate=kind, n_neighbors=0)
    built.save(tmp_path / "a.index")
    loaded = Index.load(tmp_path / "a.index")
    assert not loaded.vectors.flags.writeable  # mapped
    loaded.save(tmp_path / "b.index")
    result = [each.search(rows=[3], k=10).rows.tolist() for each in (built, loaded, Index.load(tmp_path / "b.index"))]
    assert result[0] == result[1] == result[2]


def test_an_unknown_kind_of_index_is_named() -> None:
    with pytest.raises(LikewiseError, match="approximate='tree': expected False, True, 'auto', 'hnsw'"):
        Approximate(np.ones((3, 2), np.float32), "tree")
