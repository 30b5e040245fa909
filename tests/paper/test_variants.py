from __future__ import annotations

import re

import pytest

from likewise.errors import LikewiseError
from likewise.paper import variant

NAMES = {
    "SLR": {"rank": 100, "adaptive": True, "compress": None},
    "SLR-Fixed": {"rank": 100, "adaptive": False, "compress": None},
    "SLR-Whole": {"rank": None, "adaptive": False, "compress": None},
    "SLR-G-500": {"rank": 100, "adaptive": True, "compress": "gaussian", "compress_size": 500},
    "SLR-C-20k": {"rank": 100, "adaptive": True, "compress": "sample", "compress_size": 20_000},
}


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_the_paper_has_its_settings(name):
    parameters = variant(name).get_params()
    expected = {"alpha": 0.0, "tol": 0.0, "init": "paper", "n_iter": 10, "margins": (1.0, 0.0)} | NAMES[name]
    assert {key: parameters[key] for key in expected} == expected


def test_settings_may_be_overridden():
    assert variant("SLR", n_iter=5, rank=7).get_params()["n_iter"] == 5


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
