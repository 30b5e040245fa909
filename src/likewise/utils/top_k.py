"""The k largest scores of each row."""

import numpy as np


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
