"""A text or picture encoder with a learned similarity behind it, called as sentence-transformers is."""

from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel


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
