"""Names of ImageNet's classes and of the kinds they belong to (`imagenet.tsv`), and their embeddings."""

import hashlib
import io
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import scipy.sparse as sp

from likewise.utils.cached import cached_bytes
from likewise.words.sentences import VERSION, encoder

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

    def made() -> bytes:
        data = io.BytesIO()
        np.save(data, encoder()(names).astype(np.float16), allow_pickle=False)
        return data.getvalue()

    data = cached_bytes(f"class-names-{key}.npy", made)
    return np.load(io.BytesIO(data), allow_pickle=False).astype(np.float32)
