"""Text sides: the contract, by which phrases and pictures become rows of one space, and text towers in ONNX."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.preprocessing import normalize

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.pictures.onnx import start_session
from likewise.utils.files import StrPath

MOST_LETTERS = 1000  # of a phrase
_LOOSE = re.compile(r"[\s_]+")
_LONGEST = 77  # tokens, where the model does not say: as in CLIP
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class TextSide(ABC):
    """Phrases in, rows out, to be compared with the rows of pictures by their inner product.

    `sentences` are the rows that a bridge learns from: equal or similar for phrases of a similar meaning.
    """

    name: ClassVar[str]

    @property
    def identity(self) -> str:
        """Equal for sides that make the same rows."""
        return self.name

    @abstractmethod
    def phrases(self, texts: Sequence[str]) -> np.ndarray:
        """Rows of phrases, (n, r)."""

    @abstractmethod
    def pictures(self, X: np.ndarray) -> Any:
        """Rows of pictures from their features X, (n, r), dense or sparse."""

    @abstractmethod
    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of phrases, (n, e), of unit length."""


def tidy(text: str) -> str:
    """A phrase as it is encoded: folder names have underscores, captions end in a full stop."""
    phrase = _LOOSE.sub(" ", text).strip(" .!?,;:'\"")
    if not phrase:
        raise LikewiseError(f"text={text!r} has no words; expected a phrase such as 'a dog on a beach'")
    if len(phrase) > MOST_LETTERS:
        raise LikewiseError(f"text has {len(phrase):,} letters; expected at most {MOST_LETTERS:,}")
    return phrase


class OnnxTowers(TextSide):
    """The text tower of a pair such as CLIP, in ONNX; pictures are their features, both scaled to unit length.

    The model takes token ids (`input_ids`, or its first input) and, if it has one, an attention mask; its first output
    with one row per phrase is taken, or the mean over the tokens of an output with one row per token.

    Parameters
    ----------
    model : path of the ONNX file
    tokenizer : path of the tokenizer.json that belongs to it
    """

    name: ClassVar[str] = "onnx"

    def __init__(self, model: StrPath, tokenizer: StrPath) -> None:
        tokenizers, path = optional("tokenizers", "a text model", "words"), Path(tokenizer)
        if not path.is_file():
            raise LikewiseError(f"tokenizer={path} does not exist")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # which class it has depends on the version
            raise FileFormatError(f"{path} is not a tokenizer.json: {str(error).splitlines()[0][:200]}") from error
        self._file = Path(model)
        if not self._file.is_file():
            raise LikewiseError(f"{model} does not exist")
        self._session = start_session(str(model))
        self._digest = hashlib.sha256(self._file.read_bytes() + path.read_bytes()).hexdigest()
        self._inputs = {entry.name: entry for entry in self._session.get_inputs()}
        unknown = [entry.name for entry in self._inputs.values() if entry.type not in _INTEGERS]
        if unknown:
            raise LikewiseError(
                f"{model} has the input {unknown[0]!r}, which takes no token ids: expected a text model"
            )
        self._ids = "input_ids" if "input_ids" in self._inputs else next(iter(self._inputs))
        # Pad and cut to the length that the model takes.
        declared = self._inputs[self._ids].shape
        fixed = declared[1] if len(declared) > 1 and isinstance(declared[1], int) else None
        padding = self._tokenizer.padding or {}
        wanted = {key: padding[key] for key in ("pad_id", "pad_token") if key in padding}
        self._tokenizer.enable_truncation(fixed or _LONGEST)
        self._tokenizer.enable_padding(length=fixed, **wanted)

    @property
    def identity(self) -> str:
        """The content of both files."""
        return self._digest

    def phrases(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows of the text model."""
        encoded = self._tokenizer.encode_batch([tidy(text) for text in texts])
        ids = np.array([one.ids for one in encoded], np.int64)
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        fed = {name: mask if "mask" in name else np.zeros_like(ids) for name in self._inputs} | {self._ids: ids}
        inputs = {name: values.astype(_INTEGERS[self._inputs[name].type]) for name, values in fed.items()}
        return np.asarray(normalize(_pooled(self._session.run(None, inputs), mask, self._file)), np.float32)

    def pictures(self, X: np.ndarray) -> np.ndarray:
        """The features, of unit length, which must be as wide as the rows of phrases."""
        width = self.phrases(["a"]).shape[1]
        if X.shape[1] != width:
            raise LikewiseError(
                f"{self._file} makes rows of {width} numbers and pictures have {X.shape[1]}: expected the text tower "
                "that belongs to the model of the features"
            )
        return np.asarray(normalize(np.asarray(X, np.float32)))

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """The same rows."""
        return self.phrases(texts)


def _pooled(outputs: list[Any], mask: np.ndarray, file: Path) -> np.ndarray:
    flat = next((out for out in outputs if np.ndim(out) == 2 and len(out) == len(mask)), None)
    if flat is not None:
        return np.asarray(flat, np.float32)
    tokens = next((out for out in outputs if np.ndim(out) == 3 and out.shape[:2] == mask.shape), None)
    if tokens is None:
        raise LikewiseError(f"{file} has no output with one row per phrase or per token: not a text model")
    weights = mask[:, :, None] / mask.sum(axis=1)[:, None, None]
    return np.asarray((tokens * weights).sum(axis=1), np.float32)
