import errno
import os

import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.decomposition import PCA
from tests.planted import planted

import likewise
from likewise import SLR, SimilarityLearner
from likewise.errors import FileFormatError, LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.learn.model_file import read_tensors, write_tensors
from likewise.rivals import LDA, Cosine, Kernelised, RidgeOneHot
from likewise.utils import files


@pytest.fixture
def model():
    X, y = planted(60, 5, 3)
    return SLR(2, max_iter=2, random_state=3).fit(X, np.array(["ant", "bee", "čmelák"])[y])


def test_a_model_comes_back_bit_by_bit(model, tmp_path):
    path = model.save(tmp_path / "m.likewise", metrics={"mAP": 0.5})
    back = SLR.load(path)
    X, _ = planted(60, 5, 3)
    np.testing.assert_array_equal(back.similarity(X), model.similarity(X))
    assert back.get_params() == model.get_params() | {"margins": [1.0, 0.0]}
    assert back.classes_.tolist() == ["ant", "bee", "čmelák"]
    assert back.history_ == [{"loss": entry["loss"]} for entry in model.history_]  # without times
    assert type(likewise.load(path)) is SLR
    assert SimilarityModel.load(path).rank_ == 2


class Twice(SimilarityModel):
    """A model as a parameter, and a fitted copy of it as an attribute."""

    def __init__(self, inner=None):
        self.inner = inner

    def fit(self, X, y):
        self.inner_, self.n_features_in_ = clone(self.inner).fit(X, y), X.shape[1]
        return self

    def _gallery_side(self, X):
        return self.inner_._gallery_side(X)


def test_models_inside_models_come_back(tmp_path):
    X, y = planted(60, 5, 3)
    model = Twice(Twice(Kernelised("ridge", width=1.0, n_landmarks=20, random_state=1))).fit(X, y)
    path = model.save(tmp_path / "m.likewise")
    for back in (likewise.load(path), Twice.load(path)):
        np.testing.assert_allclose(back.similarity(X), model.similarity(X), rtol=0, atol=1e-12)
        assert type(back.inner_.inner_.base_) is RidgeOneHot
        assert back.get_params()["inner__inner__random_state"] == 1
        assert back.inner_.inner_.base_.alpha_ == model.inner_.inner_.base_.alpha_
        assert back.inner_.inner_.cv_results_["params"] == model.inner_.inner_.cv_results_["params"]


def test_a_model_inside_a_model_has_a_card_and_tensors_of_its_own(tmp_path):
    X, y = planted(60, 5, 3)
    tensors, card = read_tensors(Twice(LDA(shrinkage=0.1)).fit(X, y).save(tmp_path / "m.likewise"))
    assert card["models"]["inner_"]["class"] == "LDA"
    assert card["models"]["inner"]["parameters"]["shrinkage"] == 0.1
    assert "inner_.components_" in tensors
    assert card["format"] == 2


def test_what_no_file_can_name_is_refused_when_saving(tmp_path):
    X, y = planted(60, 5, 3)
    model = Twice(Cosine()).fit(X, y)
    model.inner_ = PCA(2)
    with pytest.raises(LikewiseError, match="cannot save a value of type PCA: a model file holds arrays and"):
        model.save(tmp_path / "m.likewise")


def test_an_unknown_model_inside_a_model_gets_a_sentence(tmp_path):
    inner = {"class": "Nobody", "parameters": {}, "state": {}}
    card = {"class": "Twice", "parameters": {}, "state": {}, "models": {"inner_": inner}}
    write_tensors(tmp_path / "m", {"x": np.ones(3)}, card)
    with pytest.raises(FileFormatError, match="the model in inner_ is of class Nobody, which is not known"):
        likewise.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("model", "width", "words"),
    [
        (Cosine(centre=True), 1, r"mean_ has shape \(5,\), but n_features_in_ is 1"),
        (Cosine(), None, r"mean_ has shape \(5,\), but n_features_in_ is None"),
        (Kernelised("ridge", n_landmarks=9), 1, r"rows of 1 columns do not go with an array of shape \(5,\)"),
        (
            SimilarityLearner("linear", scaling="standard"),
            1,
            r"rows of 1 columns do not go with an array of shape \(5,\)",
        ),
    ],
)
def test_a_width_that_is_not_that_of_the_arrays_gets_a_sentence(tmp_path, model, width, words):
    tensors, card = read_tensors(model.fit(*planted(60, 5, 3)).save(tmp_path / "m"))
    card["state"]["n_features_in_"] = width
    write_tensors(tmp_path / "m", tensors, card)
    with pytest.raises(FileFormatError, match=f"m is damaged: its card does not fit .*: {words}"):
        likewise.load(tmp_path / "m")


def test_our_class_is_not_replaced_by_another_of_its_name(tmp_path):
    X, y = planted(60, 5, 3)
    path = LDA(shrinkage=0.1).fit(X, y).save(tmp_path / "m.likewise")
    type("LDA", (Twice,), {})
    assert type(likewise.load(path)) is LDA


def test_the_card_says_what_the_model_is(model, tmp_path):
    card = read_tensors(model.save(tmp_path / "m.likewise", metrics={"mAP": 0.5}))[1]
    assert card["class"] == "SLR"
    assert card["parameters"]["rank"] == 2
    assert card["metrics"] == {"mAP": 0.5}
    about = card["about"]
    assert (about["id"], about["classes"], about["seed"]) == (model.identity, 3, 3)
    assert {name: about["source"][name] for name in ("path", "rows", "columns")} == {
        "path": None, "rows": 60, "columns": 5,
    }  # fmt: skip
    assert about["source"]["checksum"].startswith("rows:")
    assert about["versions"]["likewise"] == likewise.__version__
    assert set(about["versions"]) == {"python", "likewise", "numpy", "scipy", "scikit-learn"}


@pytest.mark.parametrize("kind", [SLR(2, max_iter=3), SimilarityLearner(random_state=0), LDA(), Cosine()])
def test_equal_fits_have_equal_bytes_and_one_identity(kind, tmp_path):
    X, y = planted(120, 5, 3)
    one, two = (clone(kind).fit(X, y).save(tmp_path / name) for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    back = likewise.load(one)
    assert back.identity == clone(kind).fit(X, y).identity
    assert back.save(tmp_path / "again").read_bytes() == one.read_bytes()
    other = clone(kind).fit(X[::2] * np.linspace(1, 2, 5), y[::2])
    assert other.identity != back.identity or np.array_equal(other.transform(X), back.transform(X))


def test_the_identity_says_nothing_about_when_and_from_what_a_model_was_fitted(tmp_path):
    X, y = planted(120, 5, 3)
    model, other = (SLR(2, max_iter=2, random_state=0).fit(X, y) for _ in range(2))
    other.provenance_ |= {"date": "2020-02-02", "source": {"path": "rows.csv"}, "versions": {"numpy": "0"}}
    other.set_params(verbose=1, random_state=7)
    assert other.identity == model.identity
    card = likewise.load(other.save(tmp_path / "m")).card()
    assert (card["date"], card["source"]["path"], card["versions"]) == ("2020-02-02", "rows.csv", {"numpy": "0"})
    assert likewise.load(tmp_path / "m").fit(X, y).card()["source"]["path"] is None


def test_the_card_has_held_out_figures_with_intervals():
    X, y = planted(400, 6, 4)
    for settings in (None, {"share": 0.0}):
        held_out = SimilarityLearner(settings=settings, random_state=0).fit(X, y).card()["held_out"]
        for name in ("mAP", "raw"):
            low, high = held_out[f"{name}_interval"]
            assert 0 <= low < held_out[name] < high <= 1


def test_the_order_of_columns_changes_no_split():
    X, y = planted(90, 6, 3)
    one, other = (SimilarityLearner("linear", scaling="unit", random_state=0).fit(rows, y) for rows in (X, X[:, ::-1]))
    np.testing.assert_allclose(
        one.cv_results_["split0_test_score"], other.cv_results_["split0_test_score"], rtol=0, atol=1e-9
    )


def test_data_frame_columns_are_remembered(tmp_path):
    import pandas as pd

    X, y = planted(60, 3, 3)
    path = SLR(2, max_iter=1).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y).save(tmp_path / "m")
    with pytest.raises(ValueError, match="feature names"):
        SLR.load(path).transform(pd.DataFrame(X, columns=["a", "b", "x"]))


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
    with pytest.raises(FileFormatError, match="codebook holds LLC, not a similarity model"):
        likewise.load(tmp_path / "codebook")
    with pytest.raises(LikewiseError, match="nowhere does not exist"):
        SLR.load(tmp_path / "nowhere")
    with pytest.raises(LikewiseError, match="is not a file"):
        SLR.load(tmp_path)


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    write_tensors(tmp_path / "new", {"x": np.ones(3)}, {"class": "SLR", "format": 99})
    with pytest.raises(FileFormatError, match=r"new has format 99; likewise .* reads format 2"):
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
    model = SLR(2, max_iter=1, random_state=np.random.RandomState(0)).fit(X, y)
    assert SLR.load(model.save(tmp_path / "m")).random_state is None


@pytest.mark.parametrize(
    "names",
    [
        np.array(["2020-01-01", "2021-05-06", "1969-12-31"], dtype="datetime64[D]"),
        np.array(["2020-01-01T00:00:00.000000001", "2021", "1969"], dtype="datetime64[ns]"),
        np.array([b"ant", b"b\xe9e", b"\xff"]),
    ],
)
def test_dates_and_bytes_as_labels_come_back(names, tmp_path):
    X, y = planted(60, 5, 3)
    model = SLR(2, max_iter=1).fit(X, names[y])
    back = likewise.load(model.save(tmp_path / "m.likewise"))
    assert back.classes_.dtype == names.dtype
    np.testing.assert_array_equal(back.classes_, np.sort(names))


def test_cosines_of_any_rows_are_one_model():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    first, other = Cosine().fit(rows[:5]), Cosine().fit(rows[5:].astype(np.float32))
    assert first.identity == other.identity
    assert Cosine(centre=True).fit(rows[:5]).identity != Cosine(centre=True).fit(rows[5:]).identity
