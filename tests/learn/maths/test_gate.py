"""The gate between what was taught and what was not."""

import numpy as np
import pytest

from likewise.learn.maths.gate import Gate, _limited, learn_gate
from likewise.utils.arrays import unit_rows


def classes(n_each, n_classes, seed, first=0, dtype=np.float32, width=24):
    """Unit rows of classes around directions that do not depend on the seed, and their codes."""
    centres = np.random.default_rng(7).normal(size=(40, width))[first : first + n_classes]
    codes = np.repeat(np.arange(n_classes), n_each)
    noise = np.random.default_rng(seed).normal(size=(len(codes), width))
    return unit_rows(centres[codes] + 0.6 * noise).astype(dtype), codes


def gate_of(labelled, codes, gallery) -> tuple[Gate, np.ndarray]:
    gate = learn_gate(labelled, codes, gallery)
    return gate, gate(gallery)


@pytest.mark.parametrize("n_new", [0, 3, 10, 30])
def test_the_share_of_taught_rows_is_close_to_the_truth(n_new):
    labelled, codes = classes(40, 10, 0)
    taught, _ = classes(40, 10, 1)
    new = classes(40, n_new, 2, first=10)[0] if n_new else taught[:0]
    gate, g = gate_of(labelled, codes, np.vstack([taught, new]))
    assert gate.share == pytest.approx(10 / (10 + n_new), abs=0.12)
    assert g[:400].mean() > 0.7
    assert n_new == 0 or g[400:].mean() < 0.15


def test_classes_that_are_rare_among_labels_but_common_in_the_gallery_are_taught_all_the_same():
    labelled, codes = classes(40, 10, 0)
    some = (codes >= 5) | (np.arange(400) % 40 < 8)  # 8 of 40 rows of half of the classes
    gallery = np.vstack([classes(80, 5, 1)[0], classes(20, 5, 2, first=5)[0], classes(50, 10, 3, first=10)[0]])
    _, g = gate_of(labelled[some], codes[some], gallery)
    assert g[:400].mean() > 0.7
    assert g[500:].mean() < 0.15


def test_equal_rows_give_equal_gates():
    labelled, codes = classes(20, 5, 0)
    gallery, _ = classes(20, 10, 1)
    assert np.array_equal(gate_of(labelled, codes, gallery)[1], gate_of(labelled, codes, gallery)[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gallery", ["one row", "constant", "the labelled rows", "far away"])
def test_any_finite_gallery_has_a_gate(gallery, dtype):
    labelled, codes = classes(10, 2, 0, dtype=dtype)
    rows = {
        "one row": labelled[:1] * 1,
        "constant": np.repeat(labelled[:1], 30, axis=0),
        "the labelled rows": labelled,
        "far away": -labelled,
    }[gallery]
    gate, g = gate_of(labelled, codes, rows)
    assert 0 < gate.share <= 1
    assert np.all((g >= 0) & (g <= 1))


def test_labelled_rows_that_are_all_the_same_have_a_gate():
    labelled = np.repeat(classes(1, 1, 0)[0], 20, axis=0)
    _, g = gate_of(labelled, np.arange(20) % 2, classes(10, 3, 1)[0])
    assert np.isfinite(g).all()


def test_a_share_is_lowered_if_labelled_rows_differ_more_than_it_allows():
    assert _limited(0.8, 0.6) == 0.8  # at most 0.6 with 20 % of new rows
    assert _limited(0.8, 0.75) == pytest.approx(0.6)
    assert _limited(1.0, 0.75) == 1.0
