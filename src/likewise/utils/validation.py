"""Validation of rows, parameters and labels.

What we use of scikit-learn's validation, private parts included: a release that moves them is met here alone.
"""

from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import validation
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import _get_feature_names as feature_names
from sklearn.utils.validation import check_is_fitted

from likewise.errors import LikewiseError

__all__ = [
    "COUNT", "NOT_NEGATIVE", "NUMERIC_ROWS", "POSITIVE", "SHARE", "Interval", "Options", "StrOptions", "check_X_y",
    "check_array", "check_is_fitted", "check_sample_weight", "feature_names", "is_absent", "is_missing", "is_no_label",
    "validate_data",
]  # fmt: skip

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="both")

NUMERIC_ROWS = {"accept_sparse": "csr", "dtype": ["float64", "float32"], "order": "C"}
"""Rows as models learn from them: float32 or float64, dense or CSR."""

Check = TypeVar("Check", bound=Callable[..., Any])


def _in_a_sentence(check: Check) -> Check:
    """A check whose errors are one line: scikit-learn adds paragraphs of advice, some of it on other estimators."""

    @wraps(check)
    def checked(*args: Any, **options: Any) -> Any:
        try:
            return check(*args, **options)
        except ValueError as error:
            first, *more = str(error).strip().splitlines()
            if not more:
                raise
            raise LikewiseError(first if first.endswith(".") else " ".join([first, *more])) from error

    return checked  # type: ignore[return-value]


check_array = _in_a_sentence(validation.check_array)
check_X_y = _in_a_sentence(validation.check_X_y)
check_sample_weight = _in_a_sentence(validation._check_sample_weight)
validate_data = _in_a_sentence(validation.validate_data)


# -- Labels that are missing -------------------------------------------------------------------------------------------


def is_absent(value: Any) -> bool:
    """Whether a value is None, NaN or blank."""
    if value is None or type(value).__name__ == "NAType":  # pandas.NA, whose comparisons have no truth value
        return True
    return bool(value != value) or (isinstance(value, str) and not value.strip())


def is_no_label(value: Any) -> bool:
    """Whether a value means "unlabelled": None, NaN, blank, or -1 as a number or as text."""
    return is_absent(value) or (value.strip() == "-1" if isinstance(value, str) else bool(value == -1))


def is_missing(y: np.ndarray) -> np.ndarray:
    """True where a row has no label: None, NaN or NaT, "", or -1 (among text, too)."""
    if y.dtype.kind in "iuf":
        return np.asarray((y == -1) | (y != y))
    if y.dtype.kind == "M":
        return np.isnat(y)
    if y.dtype.kind == "U":
        return np.isin(np.char.strip(y), ("", "-1"))
    if y.dtype.kind == "O":
        return np.array([is_no_label(value) for value in y.ravel().tolist()], dtype=bool).reshape(y.shape)
    return np.zeros(y.shape, dtype=bool)
