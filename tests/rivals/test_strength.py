"""Honest rivals: each improves on what one has before learning."""

import numpy as np
import pytest

from likewise import rivals as baselines

# Least gain in mAP over Euclid on digits, well below what each was measured to reach.
GAINS = [
    (baselines.Whitening(), 0.0),
    (baselines.RCA(), 0.06),
    (baselines.NCA(scale=0.3, max_iter=15), 0.06),
    (baselines.LMNN(rank=64, k=10, mu=0.5, n_rounds=2), 0.07),
    (baselines.OASIS(n_steps=100_000, C=1.0), 0.12),
    (baselines.FRML(rank=20, n_iter=1000, step=1.0), 0.15),
    (baselines.RidgeOneHot(), 0.18),
    (baselines.LDA(), 0.19),
    (baselines.WithInput("lda", holdout="rows"), 0.15),
    (baselines.LDAPosterior(), 0.26),
    (baselines.LogisticPosterior(), 0.27),
    (baselines.Kernelised("ridge", n_landmarks=500), 0.3),
    (baselines.KernelRidge(scalings=("unit",)), 0.3),
    (baselines.KernelRidge("posterior", scalings=("unit",), widths=(2.0,)), 0.3),
    (baselines.NeuralHead(scale=8.0, n_steps=300), 0.25),
    (baselines.SVMPosterior(widths=(1.0,), grid=(10.0,)), 0.3),
]


@pytest.mark.parametrize(("model", "gain"), GAINS, ids=lambda value: repr(value))
def test_each_rival_improves_on_euclid(digits, model, gain):
    X, y, X_test, y_test = digits
    if isinstance(model, baselines.NeuralHead):
        pytest.importorskip("torch")
    euclid = baselines.Euclid().fit(X).score(X_test, y_test)
    assert model.fit(X, y).score(X_test, y_test) > euclid + gain


def test_every_public_rival_is_exported_and_measured():
    measured = {type(model).__name__ for model, _ in GAINS} | {"Euclid", "Cosine"}
    assert measured == set(baselines.__all__)


def test_the_setting_chosen_is_the_best_of_those_tried(digits):
    X, y, *_ = digits
    model = baselines.LDA().fit(X, y)
    tried = model.cv_results_
    assert model.shrinkage_ == tried["params"][int(np.argmax(tried["mean_test_score"]))]["shrinkage"]
    assert tried["rank_test_score"][tried["params"].index({"shrinkage": model.shrinkage_})] == 1
    assert len(tried["mean_test_score"]) == len(model.grid)
