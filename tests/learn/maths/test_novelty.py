import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from likewise import SimilarityLearner, load
from likewise.errors import FileFormatError, LikewiseError
from likewise.learn.maths.scatter import NoveltyModel
from likewise.learn.model_file import read_tensors, write_tensors
from likewise.rivals import LDA

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(Y))
KNOWN, STRANGE = ORDER[Y[ORDER] < 5], ORDER[Y[ORDER] >= 5]


def test_unknown_classes_are_farther_than_known_ones():
    novelty_model = NoveltyModel.of(X[KNOWN[:600]], Y[KNOWN[:600]], np.random.default_rng(0))
    novelty = novelty_model.novelty(X[np.concatenate([KNOWN[600:], STRANGE])])
    is_strange = np.arange(len(novelty)) >= len(KNOWN) - 600
    assert roc_auc_score(is_strange, novelty) > 0.9
    assert (novelty[~is_strange] > 1).mean() < 0.12


def test_rows_wider_than_many_are_compared_in_leading_directions():
    rng = np.random.default_rng(0)
    wide = X @ rng.standard_normal((64, 400))
    novelty_model = NoveltyModel.of(wide[KNOWN[:600]], Y[KNOWN[:600]], rng)
    assert novelty_model.map.shape == (400, 256)
    assert np.isfinite(novelty_model.novelty(wide[:5])).all()


@pytest.mark.parametrize("rows", [sp.csr_array(X[:50]), X[:2]])
def test_sparse_rows_and_too_few_have_none(rows):
    assert NoveltyModel.of(rows, Y[: rows.shape[0]], np.random.default_rng(0)) is None


@pytest.fixture(scope="module")
def model():
    return SimilarityLearner(kernel="linear", random_state=0).fit(X[KNOWN[:400]], Y[KNOWN[:400]])


def test_novelty_survives_a_file(model, tmp_path):
    again = load(model.save(tmp_path / "model"))
    assert np.array_equal(again.novelty(X[:9]), model.novelty(X[:9]))
    assert model.novelty(X[STRANGE].astype(np.float32)).shape == (len(STRANGE),)


def test_a_damaged_scale_is_refused(model, tmp_path):
    path = model.save(tmp_path / "model")
    tensors, card = read_tensors(path)
    write_tensors(path, {**tensors, "novelty_scale_": np.array([1.0, 0.0])}, card)
    with pytest.raises(FileFormatError, match="novelty_scale_"):
        load(path)


def test_other_models_say_that_they_cannot_tell():
    with pytest.raises(LikewiseError, match="LDA has no novelty model"):
        LDA().fit(X[:200], Y[:200]).novelty(X[:2])
