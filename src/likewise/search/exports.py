"""Exports for other engines: Parquet, Arrow, faiss and NumPy files, an ONNX graph of the model, a map for raw rows."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.learn.base import SimilarityModel
from likewise.search.approximate import serialized
from likewise.search.index import BaseIndex
from likewise.search.stores.base import card_of_text, record_batch, schema
from likewise.search.stores.exporting import batches, layout_of, own_columns
from likewise.utils.files import atomic_write

_BATCH = 10_000  # rows of a row group of Parquet, or of a record batch


def export(index: BaseIndex, path: str | os.PathLike[str]) -> Path:
    """Write an index to a .parquet, .arrow, .faiss or .npz file, or its model to an .onnx file."""
    path = Path(path)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        known = ".parquet, .arrow, .faiss, .npz or .onnx"
        raise LikewiseError(f"{path} ends with {path.suffix or 'nothing'}; expected {known}")
    return write(index, path)


def to_parquet(index: BaseIndex, path: str | os.PathLike[str]) -> Path:
    """A Parquet file of `id`, `vector` (a list of fixed size), label, path and all metadata, written in row groups."""
    parquet = optional("pyarrow.parquet", "the Parquet export", "parquet")
    return _streamed(index, path, parquet.ParquetWriter)


def to_arrow(index: BaseIndex, path: str | os.PathLike[str]) -> Path:
    """An Arrow file (IPC, also called Feather) of the same columns, which can be mapped into memory."""
    return _streamed(index, path, optional("pyarrow", "the Arrow export", "parquet").ipc.new_file)


def _streamed(index: BaseIndex, path: str | os.PathLike[str], writer: Callable[[BinaryIO, Any], Any]) -> Path:
    import pyarrow as pa

    built_in = own_columns(index)
    columns = schema(layout_of(index, built_in))
    metadata: Any = None if index.metadata is None else index.metadata.table
    names = [] if metadata is None else [name for name in metadata.column_names if name not in columns.names]
    whole = pa.schema([*columns, *(metadata.schema.field(name) for name in names)], metadata=columns.metadata)

    def write(file: BinaryIO) -> None:
        start = 0
        with writer(file, whole) as output:
            for rows in batches(index, built_in, _BATCH):
                table = pa.Table.from_batches([record_batch(rows, columns)])
                for name in names:
                    table = table.append_column(whole.field(name), metadata.column(name).slice(start, len(rows)))
                output.write_table(table)
                start += len(rows)

    return atomic_write(path, write)


def to_faiss(index: BaseIndex, path: str | os.PathLike[str]) -> Path:
    """A faiss inner-product index, exact or approximate as the index is; its ids are row numbers.

    Of an index with neighbours it holds the smoothed vectors: search it by the vectors of `index.space().embed`.
    """
    faiss = optional("faiss", "the faiss export", "serve")
    if index.approximate:
        return atomic_write(path, serialized(index.engine))
    engine = faiss.IndexFlatIP(index.vectors.shape[1])
    engine.add(np.ascontiguousarray(index.vectors))
    return atomic_write(path, faiss.serialize_index(engine).tobytes())


def to_numpy(index: BaseIndex, path: str | os.PathLike[str]) -> Path:
    """An .npz file with `vectors` (n, r), as the index searches them, `ids` (n,), as text unless integers, and `model`.

    That is the card of the model, as JSON.
    """
    ids = index.ids if index.ids.dtype.kind == "i" else np.array([str(value) for value in index.ids])
    card = np.array(json.dumps(index.model.card()))
    return atomic_write(path, lambda file: np.savez(file, vectors=index.vectors, ids=ids, model=card))


def to_onnx(index: BaseIndex, path: str | os.PathLike[str]) -> Path:
    """The model of an index as an ONNX graph."""
    return atomic_write(path, index.model.to_onnx())


_WRITERS: dict[str, Callable[[BaseIndex, Path], Path]] = {
    ".parquet": to_parquet, ".arrow": to_arrow, ".feather": to_arrow, ".faiss": to_faiss, ".npz": to_numpy,
    ".npy": to_numpy, ".onnx": to_onnx,
}  # fmt: skip


def exported_card(path: Path) -> dict[str, Any] | None:
    """The card of the model whose vectors an export wrote to a Parquet, Arrow or NumPy file; None of any other."""
    suffix, text = path.suffix.lower(), b""
    if suffix == ".parquet":
        text = (optional("pyarrow.parquet", "Parquet", "parquet").read_schema(path).metadata or {}).get(
            b"likewise", b""
        )
    elif suffix in (".arrow", ".feather"):
        with optional("pyarrow", "Arrow", "parquet").ipc.open_file(path) as file:
            text = (file.schema.metadata or {}).get(b"likewise", b"")
    elif suffix == ".npz":
        with np.load(path) as arrays:
            text = str(arrays["model"]).encode() if "model" in arrays else b""
    return card_of_text(text.decode())


def query_map(model: SimilarityModel) -> np.ndarray:
    """M, (d, d): Q @ M searches raw rows in any inner-product engine, without indexing them again.

    Only a bilinear similarity can be moved to the query; a cosine, a kernel or a posterior changes the gallery too.
    """
    method = getattr(model, "query_map", None)
    if method is None:
        raise LikewiseError(
            f"{type(model).__name__} is not bilinear in raw rows and has no query_map: "
            "its gallery must be transformed, as Index.build does"
        )
    return np.asarray(method())


class LearnedEncoder:
    """An encoder whose vectors are those of a model: their inner product is the learned similarity.

    Parameters
    ----------
    model : fitted on the vectors of the encoder
    encoder : anything with `encode`, such as a SentenceTransformer; its own `encode_query` and `encode_document` are
        used where it has them

    Examples
    --------
    >>> import numpy as np
    >>> from likewise import SLR
    >>> from likewise.search import LearnedEncoder
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[len(text), text.count(" "), 1.0] for text in texts])
    >>> texts = ["a", "bb", "a b c", "d e f g"]
    >>> learned = LearnedEncoder(SLR(rank=1).fit(Lengths().encode(texts), [0, 0, 1, 1]), Lengths())
    >>> learned.encode(texts).shape, learned.encode_query("b").shape
    ((4, 1), (1,))
    """

    def __init__(self, model: SimilarityModel, encoder: Any) -> None:
        if not callable(getattr(encoder, "encode", None)):
            raise LikewiseError(f"encoder is a {type(encoder).__name__} without encode; expected one that has it")
        self.model, self.encoder = model, encoder

    def encode(self, sentences: Any, **options: Any) -> np.ndarray:
        """Vectors of documents, one per text, or one vector for one text; options are the encoder's own."""
        return self.encode_document(sentences, **options)

    def encode_document(self, sentences: Any, **options: Any) -> np.ndarray:
        """Vectors of documents: the rows of a store."""
        return self._encoded(sentences, "encode_document", self.model.transform, options)

    def encode_query(self, sentences: Any, **options: Any) -> np.ndarray:
        """Vectors of queries, which differ from those of documents if the model has two sides."""
        return self._encoded(sentences, "encode_query", self.model.transform_query, options)

    def similarity(self, queries: Any, documents: Any) -> np.ndarray:
        """Inner products of vectors that this encoder made."""
        return np.atleast_2d(queries) @ np.atleast_2d(documents).T

    def _encoded(self, sentences: Any, method: str, side: Any, options: dict[str, Any]) -> np.ndarray:
        encode = getattr(self.encoder, method, self.encoder.encode)
        alone = isinstance(sentences, str)
        rows = np.asarray(encode([sentences] if alone else sentences, **options))
        if rows.ndim != 2:
            raise LikewiseError(f"encoder gives shape {rows.shape}; expected one vector per text")
        vectors = np.asarray(side(rows), np.float32)
        return vectors[0] if alone else vectors
