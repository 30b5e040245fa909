"""Words before anything was learned: phrases and pictures as weights of ImageNet's classes.

`imagenet.tsv` has the names of the classes and of the kinds they belong to. A phrase weighs the kinds by how near their
names are to it, a picture weighs them by the probabilities of their classes; the score is the cosine of the picture's
weights with the phrase's, so that "dog" finds all breeds. It is the convex combination of label embeddings (Norouzi et
al. 2014) with the softmax on both sides. Settings were chosen on one half of the captions of Tux Paint's stamps, which
`python -m benchmarks.words --settings` prints: mean reciprocal rank .25, and .21 for the combination of embeddings as
they have it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from likewise.errors import LikewiseError
from likewise.utils.files import cached_array
from likewise.words.sentences import VERSION, encoder
from likewise.words.sides import TextSide, tidy

N_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class ClassNames:
    """Names, the kind that each is a name of, and which of the 1,000 classes belong to which kind.

    A kind is a class itself, such as "beagle", or what several are kinds of, such as "dog". The names of a kind follow
    each other; `first` is where those of each kind begin.
    """

    names: list[str]
    first: np.ndarray
    members: sp.csr_matrix  # (kinds, classes), 0 or 1

    def best_of_kind(self, S: np.ndarray) -> np.ndarray:
        """From scores of the names, (n, names), the best of each kind, (n, kinds)."""
        return np.maximum.reduceat(S, self.first, axis=1)


@cache
def class_names() -> ClassNames:
    """The names, in the order of the classifier's outputs, kinds of several classes last."""
    text = files("likewise.words").joinpath("imagenet.tsv").read_text("utf-8")
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    named = {id: names.split("|") for id, names, _ in lines}
    above = {id: parents.split("|") for id, _, parents in lines}
    place = {id: number for number, id in enumerate(named)}
    pairs = [(place[kind], number) for number, id in enumerate(list(named)[:N_CLASSES]) for kind in _kinds(id, above)]
    kinds, classes = np.array(pairs).T
    members = sp.csr_matrix((np.ones(len(pairs), np.float32), (kinds, classes)), (len(named), N_CLASSES))
    counts = [len(names) for names in named.values()]
    return ClassNames([name for names in named.values() for name in names], np.cumsum([0, *counts[:-1]]), members)


def _kinds(id: str, above: dict[str, list[str]]) -> set[str]:
    """The class itself and all that it is a kind of."""
    return {id}.union(*(_kinds(parent, above) for parent in above[id] if parent in above))


@cache
def name_rows() -> np.ndarray:
    """Embeddings of all names, (names, 512), computed once and cached."""
    names = class_names().names
    key = hashlib.sha256("\n".join([VERSION, *names]).encode()).hexdigest()[:12]
    return cached_array(f"class-names-{key}.npy", lambda: encoder()(names).astype(np.float16)).astype(np.float32)


# -- Phrases and pictures as weights of the classes --------------------------------------------------------------------

NEAR = 0.05  # temperature of a phrase's weights over kinds, in cosines
TEMPERATURE = 2.0  # of a picture's probabilities: those of the classifier itself are too sure
TOP = 64  # classes of a picture that count: fewer lose, all 1,000 gain nothing and take sixteen times the memory
_ROWS = 8192


class ClassWords(TextSide):
    """Phrases as weights of ImageNet's classes, pictures as their probabilities from features of EfficientNet-Lite0.

    Examples
    --------
    >>> import numpy as np
    >>> from likewise.words.classes import ClassWords
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
        sparse = sp.csr_matrix((P.ravel(), top.ravel().astype(np.int32), ends.astype(np.int32)), shape)
        length = np.sqrt((sparse @ class_names().members.T).power(2).sum(axis=1))
        return sp.csr_matrix(sparse.multiply(1 / length), dtype=np.float32)
