"""What we use of scikit-learn's validation, private parts included: a release that moves them is met here alone."""

from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _get_feature_names as feature_names
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

__all__ = [
    "NUMERIC_ROWS", "Interval", "StrOptions", "check_X_y", "check_array", "check_is_fitted", "check_sample_weight",
    "feature_names", "validate_data",
]  # fmt: skip

NUMERIC_ROWS = {"accept_sparse": "csr", "dtype": ["float64", "float32"], "order": "C"}
"""Rows as models learn from them: float32 or float64, dense or CSR."""
