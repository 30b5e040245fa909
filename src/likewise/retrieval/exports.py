"""Exports for other engines: a faiss file, NumPy arrays, an ONNX graph of the model, a map for raw rows."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from likewise.base import SimilarityModel
from likewise.errors import LikewiseError, MissingExtraError
from likewise.retrieval.index import Index
from likewise.utils.files import atomic_write


def export(index: Index, path: str | os.PathLike[str], kind: str | None = None) -> Path:
    """Write an index or its model to `path`; the kind follows from the suffix (.faiss, .npz, .onnx) if not given."""
    path = Path(path)
    kind = kind or {".faiss": "faiss", ".npz": "numpy", ".npy": "numpy", ".onnx": "onnx"}.get(path.suffix.lower())
    if kind == "faiss":
        return to_faiss(index, path)
    if kind == "numpy":
        return to_numpy(index, path)
    if kind == "onnx":
        return atomic_write(path, index.model.to_onnx())
    raise LikewiseError(f"{path} ends with {path.suffix or 'nothing'}; expected .faiss, .npz or .onnx")


def to_faiss(index: Index, path: str | os.PathLike[str]) -> Path:
    """A faiss inner-product index, exact or approximate as the index is; its ids are row numbers.

    Of an index with neighbours it holds the smoothed vectors: search it by `Index.query_vectors`.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("the faiss export", "serve") from error
    if index.approximate:
        made: Any = index.engine.index  # type: ignore[union-attr]
    else:
        made = faiss.IndexFlatIP(index.vectors.shape[1])
        made.add(np.ascontiguousarray(index.vectors))
    return atomic_write(path, faiss.serialize_index(made).tobytes())


def to_numpy(index: Index, path: str | os.PathLike[str]) -> Path:
    """An .npz file with `vectors` (n, r), as the index searches them, and `ids` (n,), as text unless integers."""
    ids = index.ids if index.ids.dtype.kind == "i" else np.array([str(value) for value in index.ids])
    return atomic_write(path, lambda file: np.savez(file, vectors=index.vectors, ids=ids))


def query_map(model: SimilarityModel) -> np.ndarray:
    """M, (d, d): Q @ M searches raw rows in any inner-product engine, without indexing them again.

    Only a bilinear similarity can be moved to the query; a cosine, a kernel or a posterior changes the gallery too.
    """
    found = getattr(model, "query_map", None)
    if found is None or getattr(model, "unit_rows_", False):
        raise LikewiseError(
            f"{type(model).__name__} is not bilinear in raw rows and has no query_map: "
            "its gallery must be transformed, as Index.build does"
        )
    return np.asarray(found())
