"""Methods by name."""

import re

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.paper import variant
from likewise.paper.methods import at_setting, default_methods, make, methods_from
from likewise.paper.protocol import ProtocolSettings, TrainingBudget
from likewise.rivals.compare.methods import chosen_setting, timed_fit

SETTINGS, BUDGET = ProtocolSettings(rank=5), TrainingBudget.quick()


def test_the_default_has_every_method_of_the_paper() -> None:
    names = default_methods(6074)
    assert {"Euclid", "LMNN", "FRML", "OASIS", "LDA", "SLR", "SLR-Fixed", "SLR-Whole"} <= set(names)
    assert {"SLR-G-3000", "SLR-C-3000"} <= set(names)


def test_the_sketched_ones_stop_at_the_paper_s_20_000() -> None:
    assert "SLR-C-20000" in default_methods(71_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SLR, oasis", ["SLR", "OASIS"]),
        ("slr-c-20k,SLR-G-m", ["SLR-C-20k", "SLR-G-400"]),
        ("SLR,SLR,slr", ["SLR"]),
        ("RidgeOneHot", ["RidgeOneHot"]),
    ],
)
def test_names_are_read_whatever_their_case(text: str, expected: list[str]) -> None:
    assert methods_from(text, 840) == expected


@pytest.mark.parametrize("text", ["SLR,XYZ", "SLR-Q-7", ""])
def test_an_unknown_name_is_refused(text: str) -> None:
    with pytest.raises(LikewiseError, match=r"--methods.*expected some of Euclid, LMNN, FRML, OASIS, LDA, SLR"):
        methods_from(text, 840)


@pytest.mark.parametrize("name", ["LMNN", "FRML", "SLR", "SLR-Fixed", "SLR-C-50"])
def test_the_rank_is_that_of_the_settings(name: str) -> None:
    assert make(name, SETTINGS, BUDGET, 0).rank == 5


@pytest.mark.parametrize("name", ["LMNN", "FRML", "OASIS", "LDA"])
def test_a_rival_at_the_setting_it_chose_is_the_same_model(name: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    X = (rng.standard_normal((4, 10))[y] + rng.standard_normal((120, 10))).astype(np.float32)
    budget = TrainingBudget(oasis_steps=500, frml_steps=60, lmnn_rounds=1, lmnn_neighbours=(2, 3))
    first = make(name, SETTINGS, budget, 0)
    timed_fit(first, X, y)
    setting = chosen_setting(first)
    assert setting
    again = at_setting(name, make(name, SETTINGS, budget, 0), setting)
    timed_fit(again, X, y)
    assert chosen_setting(again) == {}
    np.testing.assert_allclose(again.similarity(X), first.similarity(X), rtol=1e-4, atol=1e-4)


# -- Variants of SLR ---------------------------------------------------------------------------------------------------

VARIANTS = {
    "SLR": {"rank": 100, "adaptive": True, "compress": None},
    "SLR-Fixed": {"rank": 100, "adaptive": False, "compress": None},
    "SLR-Whole": {"rank": None, "adaptive": False, "compress": None},
    "SLR-G-500": {"rank": 100, "adaptive": True, "compress": "gaussian", "compress_size": 500},
    "SLR-C-20k": {"rank": 100, "adaptive": True, "compress": "sample", "compress_size": 20_000},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_each_name_of_the_paper_has_its_settings(name):
    parameters = variant(name).get_params()
    expected = {"alpha": 0.0, "tol": 0.0, "init": "paper", "max_iter": 10, "margins": (1.0, 0.0)} | VARIANTS[name]
    assert {key: parameters[key] for key in expected} == expected


def test_settings_may_be_overridden():
    assert variant("SLR", max_iter=5, rank=7).get_params()["max_iter"] == 5


@pytest.mark.parametrize("name", ["SLR-X", "slr", "SLR-G", "SLR-C-0", "SLR-G-20m"])
def test_other_names_are_refused(name):
    message = f"name={name!r} is not a variant of the paper: expected SLR, SLR-Fixed, SLR-Whole, SLR-G-m or SLR-C-m"
    with pytest.raises(LikewiseError, match=re.escape(message)):
        variant(name)


@pytest.mark.parametrize("name", ["SLR", "SLR-Fixed", "SLR-Whole", "SLR-G-300", "SLR-C-300"])
def test_each_variant_learns_on_normalised_digits(name, digits):
    X, y, X_test, y_test = digits
    scale = abs(X).max() * 4
    model = variant(name, rank=None if "Whole" in name else 20, random_state=0).fit(X / scale, y)
    assert model.score(X_test / scale, y_test) > 0.75
