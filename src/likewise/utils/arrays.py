"""Arrays of other libraries, torch above all: telling them apart, and bringing them to NumPy and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config

from likewise.errors import LikewiseError, MissingExtraError

__all__ = ["as_given", "check_dense", "dense", "in_memory", "is_foreign", "is_torch", "namespace", "to_host"]


def is_torch(X: Any) -> bool:
    """Whether X is a torch tensor; torch is not imported to find out."""
    return type(X).__module__.split(".")[0] == "torch"


def is_foreign(X: Any) -> bool:
    """Whether X is an array of a library other than NumPy that speaks the array API."""
    return is_torch(X) or (hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray | np.generic))


def namespace(X: Any) -> Any:
    """The array API namespace of X, through array-api-compat."""
    try:
        import array_api_compat
    except ImportError as error:
        raise MissingExtraError(f"learning on {type(X).__module__.split('.')[0]} arrays", "torch") from error
    return array_api_compat.array_namespace(X)


def to_host(X: Any) -> Any:
    """X as a NumPy array if it is one of another library, on whatever device; anything else as it is."""
    if not is_foreign(X):
        return X
    if is_torch(X):
        check_dense(X)
        X = X.detach().cpu().resolve_conj().resolve_neg()
        return (X.float() if "bfloat16" in str(X.dtype) else X).numpy()
    try:
        return np.from_dlpack(X)
    except (BufferError, RuntimeError, TypeError, AttributeError):
        return np.asarray(X)


def in_memory(X: Any) -> Any:
    """A memmap or an array of another library as a NumPy array; anything else unchanged."""
    return np.asarray(X) if isinstance(X, np.memmap) else to_host(X)


def dense(X: Any) -> Any:
    """X itself, or a sparse matrix as a NumPy array."""
    return X.toarray() if sp.issparse(X) else X


def as_given(X: Any, result: np.ndarray) -> Any:
    """A result as NumPy; under scikit-learn's `array_api_dispatch`, in the library and on the device of X."""
    if not get_config()["array_api_dispatch"] or not is_foreign(X):
        return result
    return namespace(X).asarray(result, device=X.device)


def check_dense(X: Any) -> None:
    """Refuse a sparse tensor in words."""
    if str(X.layout) != "torch.strided":
        raise LikewiseError(f"X is a torch tensor of layout {X.layout}: expected a dense one, or SciPy's CSR")
