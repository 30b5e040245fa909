"""Words before anything was learned: a phrase is compared with the names of classes, a picture is classified.

A phrase weighs the kinds by how near their names are to it, a picture weighs them by the probabilities of their
classes; the score is the cosine of the picture's weights with the phrase's, so that "dog" finds all breeds. It is the
convex combination of label embeddings (Norouzi et al. 2014) with the softmax on both sides. Settings were chosen on one
half of the captions of Tux Paint's stamps, which `python -m benchmarks.words --settings` prints: mean reciprocal rank
.25, and .21 for the combination of embeddings as they have it.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from likewise.errors import LikewiseError
from likewise.words.base import TextSide, tidy
from likewise.words.names import class_names, name_rows
from likewise.words.sentences import encoder

NEAR = 0.05  # temperature of a phrase's weights over kinds, in cosines
TEMPERATURE = 2.0  # of a picture's probabilities: those of the classifier itself are too sure
TOP = 64  # classes of a picture that count: fewer lose, all 1,000 gain nothing and take sixteen times the memory
_ROWS = 8192


class ClassWords(TextSide):
    """Phrases as weights of ImageNet's classes, pictures as their probabilities from features of EfficientNet-Lite0.

    Examples
    --------
    >>> import numpy as np
    >>> from likewise.words.start import ClassWords
    >>> words = ClassWords()
    >>> words.phrases(["a dog on a beach"]).shape, words.pictures(np.ones((2, 1280), np.float32)).shape
    ((1, 1000), (2, 1000))
    """

    name: ClassVar[str] = "classes"

    def __init__(self) -> None:
        from likewise.pictures.efficientnet import classifier

        self.weights, self.bias = classifier()

    def phrases(self, texts: Sequence[str]) -> np.ndarray:
        """Weights of the classes, (n, 1000)."""
        names = class_names()
        near = names.best_of_kind(self.sentences(texts) @ name_rows().T)
        return np.asarray(softmax(near / NEAR, axis=1) @ names.members, np.float32)

    def pictures(self, X: np.ndarray) -> Any:
        """Probabilities of the likeliest classes, over the length of those of all kinds: sparse, (n, 1000)."""
        if X.ndim != 2 or X.shape[1] != self.weights.shape[1]:
            raise LikewiseError(f"X has shape {X.shape}; expected rows of {self.weights.shape[1]} features")
        return sp.vstack([self._rows(X[start : start + _ROWS]) for start in range(0, len(X), _ROWS)], "csr")

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of the encoder."""
        return encoder()([tidy(text) for text in texts])

    def _rows(self, X: np.ndarray) -> sp.csr_matrix:
        logits = np.asarray(X, np.float32) @ self.weights.T + self.bias
        top = np.sort(np.argpartition(-logits, TOP, axis=1)[:, :TOP], axis=1)
        P = softmax(np.take_along_axis(logits, top, axis=1) / TEMPERATURE, axis=1)
        shape, ends = logits.shape, np.arange(0, P.size + 1, TOP)
        found = sp.csr_matrix((P.ravel(), top.ravel().astype(np.int32), ends.astype(np.int32)), shape)
        length = np.sqrt((found @ class_names().members.T).power(2).sum(axis=1))
        return sp.csr_matrix(found.multiply(1 / length), dtype=np.float32)
