"""Operations on arrays of any library, and telling those of other libraries apart, torch above all."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError, optional

Array = Any
"""An array of any library: NumPy's, SciPy's CSR, a torch tensor or another that speaks the array API."""


def is_torch(X: Any) -> bool:
    """Whether X is a torch tensor; torch is not imported to find out."""
    return type(X).__module__.split(".")[0] == "torch"


def is_foreign(X: Any) -> bool:
    """Whether X is an array of a library other than NumPy that speaks the array API."""
    return is_torch(X) or (hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray | np.generic))


def namespace(X: Any) -> Any:
    """The array API namespace of X: NumPy for its own and SciPy's arrays, else through array-api-compat."""
    if not is_foreign(X):
        return np
    library = type(X).__module__.split(".")[0]
    return optional("array_api_compat", f"learning on {library} arrays", "torch").array_namespace(X)


def to_host(X: Any) -> Any:
    """X as a NumPy array if it is an array of another library or a column of vectors; anything else unchanged."""
    if len(getattr(X, "shape", (0,))) == 1 and hasattr(X, "__array__") and not is_torch(X):
        return _of_vectors(X)
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


def _of_vectors(column: Any) -> Any:
    """The rows of a column of vectors, of Arrow, pandas, polars or an object array; any other column unchanged."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column
    values = np.asarray(column)
    if values.ndim == 2 or values.dtype != object or not len(values):
        return values if values.ndim == 2 else column
    width = next((np.size(value) for value in values if np.ndim(value) == 1), None)
    if width is None:
        return column
    for row, value in enumerate(values):
        if np.shape(value) != (width,):
            what = f"{np.size(value)} numbers" if np.ndim(value) == 1 else repr(value)[:40]
            raise LikewiseError(f"row {row} of a column of vectors has {what}; expected {width} numbers, as the others")
    return np.stack(values.tolist())


def in_memory(X: Any) -> Any:
    """A memmap or an array of another library as a NumPy array; anything else unchanged."""
    return np.asarray(X) if isinstance(X, np.memmap) else to_host(X)


def as_given(X: Any, result: np.ndarray) -> Any:
    """A result as NumPy; under scikit-learn's `array_api_dispatch`, in the library and on the device of X."""
    if not get_config()["array_api_dispatch"] or not is_foreign(X):
        return result
    return namespace(X).asarray(result, device=X.device)


def check_dense(X: Any) -> None:
    """Raise for a sparse tensor."""
    if str(X.layout) != "torch.strided":
        raise LikewiseError(f"X is a torch tensor of layout {X.layout}: expected a dense one, or SciPy's CSR")


# -- The same few operations in every library --------------------------------------------------------------------------


def dense(X: Any) -> Any:
    """X itself, or a sparse matrix as a NumPy array."""
    return X.toarray() if sp.issparse(X) else X


def minus(rows: Any, columns: Any) -> Any:
    """Rows less one number for each column; of rows with one column alone, NumPy would make as many as there are."""
    if rows.shape[1:] != columns.shape:
        raise LikewiseError(f"rows of {rows.shape[1]} columns do not go with an array of shape {tuple(columns.shape)}")
    return rows - columns


def like(values: Any, X: Any) -> Any:
    """Values of the host, or already there, in the library, precision and device of X."""
    if not is_foreign(X):
        return np.asarray(values, dtype=X.dtype)
    xp = namespace(X)
    if not is_foreign(values):
        values = xp.asarray(np.ascontiguousarray(values), device=X.device)
    return xp.astype(values, X.dtype, copy=False)


def wide(X: Any) -> Any:
    """X in float64; in float32 on Apple's graphics, which have no float64."""
    if not is_foreign(X):
        return X.astype(np.float64, copy=False)
    xp = namespace(X)
    return xp.astype(X, xp.float32 if "mps" in str(X.device) else xp.float64, copy=False)


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Rows of X by their numbers, which are on the host."""
    if not is_foreign(X):
        return X[rows]
    xp = namespace(X)
    return xp.take(X, xp.asarray(rows.astype(np.int64), device=X.device), axis=0)


def unit_rows(X: Any) -> Any:
    """Rows divided by their length, sparse rows too; a row of zeros stays zero.

    As scikit-learn's `normalize` does, which validates the rows first: that takes longer than all else of a query.
    """
    if sp.issparse(X):
        return normalize(X)
    if isinstance(X, np.ndarray):
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        norms[norms < 10 * np.finfo(X.dtype).eps] = 1
        return X / norms[:, None]
    xp = namespace(X)
    norms = xp.linalg.vector_norm(X, axis=1)
    short = norms < 10 * float(xp.finfo(X.dtype).eps)
    return X / xp.where(short, xp.ones_like(norms), norms)[:, None]


def check_magnitude(X: Any, name: str = "X") -> None:
    """Raise where squares of the entries would overflow or vanish."""
    values = X.data if sp.issparse(X) else X
    largest = float(max(values.max(), -values.min())) if values.size else 0.0
    most = 1e100 if X.dtype == np.float64 else 1e15
    if largest > most or 0 < largest < 1 / most:
        raise LikewiseError(
            f"{name} has a largest absolute value of {largest:.1e}, and squares of its values leave the range of "
            f"{X.dtype}: multiply it so that this is between {1 / most:.0e} and {most:.0e}"
        )


def row_hashes(X: Any) -> np.ndarray:
    """A 64-bit hash of each row in single precision, by which it can be recognised, sparse or dense."""
    factors = np.random.default_rng(0).integers(1, 2**63, X.shape[1], dtype=np.uint64) * 2 + 1
    if sp.issparse(X):
        X = sp.csr_array(X)
        X = sp.csr_array((_bits(X.data), X.indices, X.indptr), shape=X.shape)
        return np.asarray(X @ factors)
    return np.concatenate([_bits(X[part]) @ factors for part in gen_batches(len(X), 4096)]) if len(X) else factors[:0]


def _bits(values: Any) -> np.ndarray:
    """The bits of numbers in single precision as integers; a negative zero is a zero."""
    with np.errstate(over="ignore"):  # 1e300 is infinity there
        return (np.asarray(values, dtype=np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """At most `most` of the numbers from 0 to n - 1, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def top_k(S: np.ndarray, k: int, ordered: bool = True) -> np.ndarray:
    """Columns of the k largest entries of each row of S, largest first; all of them if S has fewer than k columns.

    Among the columns chosen, equal scores are ordered by column; which of several equal scores is the k-th is left
    open. `ordered=False` skips the sort.
    """
    n = S.shape[-1]
    k = min(k, n)
    top = np.argpartition(S, min(n - k, n - 1), axis=-1)[..., n - k :]
    if not ordered:
        return top
    order = np.lexsort((top, -np.take_along_axis(S, top, axis=-1)), axis=-1)
    return np.take_along_axis(top, order, axis=-1)
