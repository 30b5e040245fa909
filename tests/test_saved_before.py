"""Files written before the package was rearranged: every model, and an index, still say what they said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise import load
from likewise.search import Index

FOLDER = Path(__file__).parent / "saved" / "format-1"
EXPECTED = np.load(FOLDER / "expected.npz")
X = np.load(FOLDER / "rows.npz")["X"]
MODELS = sorted(path.stem for path in FOLDER.glob("*.likewise"))


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("map", "taught")])
def test_a_model_saved_before_gives_the_same_similarities(name):
    similarity = load(FOLDER / f"{name}.likewise").similarity(X[100:], X[:30])
    np.testing.assert_allclose(similarity, EXPECTED[name], rtol=1e-6, atol=1e-6)


def test_a_map_saved_before_gives_the_same_rows():
    np.testing.assert_allclose(load(FOLDER / "map.likewise").transform(X[100:]), EXPECTED["map"], rtol=1e-6, atol=1e-6)


def test_a_taught_model_saved_before_gives_the_same_similarities():
    Q, G = X[100:].astype(np.float32), X[:30].astype(np.float32)
    similarity = load(FOLDER / "taught.likewise").similarity(Q, G)
    np.testing.assert_allclose(similarity, EXPECTED["taught"], rtol=1e-6, atol=1e-6)


def test_an_index_saved_before_ranks_as_it_did():
    rows, scores = Index.load(FOLDER / "index").search(X[100:105].astype(np.float32), 8)
    np.testing.assert_array_equal(rows, EXPECTED["index-rows"])
    np.testing.assert_allclose(scores, EXPECTED["index-scores"], rtol=1e-6, atol=1e-6)
