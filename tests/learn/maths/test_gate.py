"""The gate between what was taught and what was not."""

import numpy as np
import pytest

from likewise.learn.maths.gate import WEAK_SHARE, Gate, learn_gate
from likewise.utils.arrays import unit_rows


def classes(n_each, n_classes, seed, first=0, dtype=np.float32, width=24, noise=0.6):
    """Unit rows of classes around directions that do not depend on the seed, and their codes."""
    centres = np.random.default_rng(7).normal(size=(40, width))[first : first + n_classes]
    codes = np.repeat(np.arange(n_classes), n_each)
    residual = np.random.default_rng(seed).normal(size=(len(codes), width))
    return unit_rows(centres[codes] + noise * residual).astype(dtype), codes


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
    assert g[500:].mean() < 0.25


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


def open_gate(n_each, noise):
    labelled, codes = classes(n_each, 10, 0, noise=noise)
    gallery = [classes(20, 10, seed, first=first, noise=noise)[0] for seed, first in ((1, 0), (2, 10))]
    return gate_of(labelled, codes, np.vstack(gallery))


def test_a_gate_that_says_next_to_nothing_of_hidden_classes_is_a_small_constant():
    assert open_gate(3, 1.5)[1] == pytest.approx(WEAK_SHARE)


def test_the_less_distinct_the_classes_the_larger_the_power():
    assert 0 < open_gate(10, 0.6)[0].power < open_gate(10, 1.2)[0].power


def test_rows_that_were_learned_from_are_known():
    labelled, codes = classes(10, 10, 0)
    gate, _ = gate_of(labelled, codes, np.vstack([classes(20, 10, 1)[0], classes(20, 5, 2, first=10)[0]]))
    assert np.quantile(gate(labelled), 0.1) > 0.9


def test_one_class_that_looks_like_a_taught_one_is_not_another_source():
    labelled, codes = classes(40, 10, 0)
    new, _ = classes(40, 10, 1, first=10)
    alike = unit_rows(classes(40, 1, 2)[0] + 0.3 * new[0])
    gate, g = gate_of(labelled, codes, np.vstack([new, alike]))
    assert not gate.is_elsewhere
    assert g[:400].mean() < 0.15
