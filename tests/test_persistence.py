from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import likewise
from likewise import SLR
from likewise.base import SimilarityModel
from likewise.errors import FileFormatError, LikewiseError
from likewise.persistence import read_card, read_tensors, write_tensors
from likewise.utils import files
from tests.planted import planted

OLD = Path(__file__).parent / "saved" / "format-1.likewise"


@pytest.fixture
def model():
    X, y = planted(60, 5, 3)
    return SLR(2, n_iter=2, random_state=3).fit(X, np.array(["ant", "bee", "čmelák"])[y])


def test_a_model_comes_back_bit_by_bit(model, tmp_path):
    path = model.save(tmp_path / "m.likewise", metrics={"mAP": 0.5})
    back = SLR.load(path)
    X, _ = planted(60, 5, 3)
    np.testing.assert_array_equal(back.similarity(X), model.similarity(X))
    assert back.get_params() == model.get_params() | {"margins": [1.0, 0.0]}
    assert back.classes_.tolist() == ["ant", "bee", "čmelák"]
    assert back.history_ == model.history_
    assert type(likewise.load(path)) is SLR
    assert SimilarityModel.load(path).rank_ == 2


def test_the_card_tells_what_the_model_is(model, tmp_path):
    card = read_card(model.save(tmp_path / "m.likewise", metrics={"mAP": 0.5}))
    assert card["class"] == "SLR"
    assert card["parameters"]["rank"] == 2
    assert card["data"] == {"n_samples": 60, "n_features": 5, "n_classes": 3}
    assert card["metrics"] == {"mAP": 0.5}
    assert card["versions"]["likewise"] == likewise.__version__


def test_data_frame_columns_are_remembered(tmp_path):
    import pandas as pd

    X, y = planted(60, 3, 3)
    path = SLR(2, n_iter=1).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y).save(tmp_path / "m")
    with pytest.raises(ValueError, match="feature names"):
        SLR.load(path).transform(pd.DataFrame(X, columns=["a", "b", "x"]))


def test_a_model_of_the_first_format_is_still_read():
    model = SLR.load(OLD)
    X = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]])
    expected = json.loads(OLD.with_suffix(".json").read_text())
    np.testing.assert_allclose(model.similarity(X), expected["similarity"], rtol=1e-12)
    assert model.classes_.tolist() == expected["classes"]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_gets_a_sentence(model, tmp_path, share):
    path = model.save(tmp_path / "m.likewise")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileFormatError, match=r"m\.likewise is not a likewise file, or it is truncated"):
        SLR.load(path)


def test_an_altered_byte_is_noticed_wherever_it_is(model, tmp_path):
    content = bytearray(model.save(tmp_path / "m.likewise").read_bytes())
    for place in np.random.default_rng(0).integers(0, len(content), 60):
        altered = content.copy()
        altered[place] ^= 0x15
        (tmp_path / "altered").write_bytes(bytes(altered))
        with pytest.raises(FileFormatError):
            SLR.load(tmp_path / "altered")


def test_foreign_files_get_a_sentence(tmp_path):
    save_file({"x": np.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(FileFormatError, match="is a safetensors file, but not one that likewise wrote"):
        SLR.load(tmp_path / "other.safetensors")
    write_tensors(tmp_path / "codebook", {"x": np.ones(3)}, {"class": "LLC"})
    with pytest.raises(FileFormatError, match="codebook holds LLC, not SLR"):
        SLR.load(tmp_path / "codebook")
    with pytest.raises(LikewiseError, match="nowhere does not exist"):
        SLR.load(tmp_path / "nowhere")
    with pytest.raises(LikewiseError, match="is not a file"):
        SLR.load(tmp_path)


def test_a_newer_format_asks_for_an_upgrade(tmp_path, monkeypatch):
    monkeypatch.setattr("likewise.persistence.FORMAT", 99)
    write_tensors(tmp_path / "new", {"x": np.ones(3)}, {"class": "SLR"})
    monkeypatch.undo()
    with pytest.raises(FileFormatError, match=r"new has format 99; likewise .* reads up to 1: upgrade it"):
        read_tensors(tmp_path / "new")


def test_a_full_disk_leaves_the_old_model_and_no_litter(model, tmp_path, monkeypatch):
    path = model.save(tmp_path / "m.likewise")
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(
        LikewiseError, match=r"cannot write .*m\.likewise: No space left on device; nothing was changed"
    ):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.likewise"]


def test_a_folder_that_is_not_there_gets_a_sentence(model, tmp_path):
    with pytest.raises(LikewiseError, match=r"cannot write .*: No such file or directory"):
        model.save(tmp_path / "no" / "m.likewise")


def test_a_random_generator_is_left_out_of_the_file(tmp_path):
    X, y = planted(60, 5, 3)
    model = SLR(2, n_iter=1, random_state=np.random.RandomState(0)).fit(X, y)
    assert SLR.load(model.save(tmp_path / "m")).random_state is None
