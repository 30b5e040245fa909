"""What the server works on: the index, its spaces, its labels, and the pictures people brought."""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.metrics import average_precision
from likewise.web.pictures import SIZES, Cache, Picture, decoded, encoded, missing, picture_of_file
from likewise.web.settings import Limits
from likewise.web.spaces import Space, best, learned_space, raw_space

__all__ = ["Desk", "Found", "Missing", "Reference", "Upload"]

# What an unwanted example weighs beside a wanted one (Rocchio's feedback; the classical 0.15 to 0.75 is far too timid
# for someone who has pressed "not like this").
UNLIKE = 0.5


class Missing(LikewiseError):
    """Something that was asked for by number or name and is not there."""


@dataclass(frozen=True)
class Upload:
    """A picture that somebody brought: its raw features and how it looks."""

    features: np.ndarray
    picture: Picture
    size: tuple[int, int]


Reference = int | str  # the row of an item, or the name of an upload


@dataclass(frozen=True)
class Found:
    """What a search found, best first; `relevant` is None where it is not known."""

    space: Space
    rows: np.ndarray
    scores: np.ndarray
    label: str | None
    average_precision: float | None


class Desk:
    """One index being searched and taught."""

    def __init__(self, index: Any, limits: Limits) -> None:
        self.index = index
        self.limits = limits
        self.boot = secrets.token_hex(4)  # tells pictures of this start from those of another in a browser's cache
        self.raw = raw_space(index.raw)
        self.learned = learned_space(index)
        self.previous: Space | None = None
        self.labels: list[str | None] = _texts(index.labels, len(index))
        self._codes: tuple[list[str], np.ndarray] | None = None
        self._pieces: list[str | None] = [None] * len(index)
        self._uploads: OrderedDict[str, Upload] = OrderedDict()
        self._lock = threading.Lock()
        self._cache = Cache()
        self.has_pictures = index.paths is not None and any(path is not None for path in index.paths[:1000])

    def __len__(self) -> int:
        return len(self.labels)

    # -- items --------------------------------------------------------------------------------------------------------

    def checked(self, row: int) -> int:
        """The row, if there is such an item."""
        if not 0 <= row < len(self):
            raise Missing(f"row {row} is not in the index; expected 0 to {len(self) - 1}")
        return row

    def describe(self, row: int) -> str:
        """What is said of an item, as a piece of JSON without the braces; kept, because every answer needs it."""
        piece = self._pieces[row]
        if piece is None:
            name = self.index.ids[row]
            facts = {"row": row, "id": name.item() if isinstance(name, np.generic) else name, "label": self.labels[row]}
            piece = self._pieces[row] = json.dumps(facts, ensure_ascii=False)[1:-1]
        return piece

    def set_label(self, row: int, label: str | None) -> None:
        """Give an item another label, or none."""
        self.labels[row] = label
        self._codes = self._pieces[row] = None

    def codes(self) -> tuple[list[str], np.ndarray]:
        """The labels in order and each item's number among them, -1 where it has none."""
        if self._codes is None:
            names = sorted({label for label in self.labels if label is not None})
            number = {name: place for place, name in enumerate(names)}
            self._codes = names, np.array([-1 if x is None else number[x] for x in self.labels], dtype=np.int32)
        return self._codes

    def picture(self, row: int, size: str) -> Picture:
        """The picture of an item, or a tile with its name."""
        key = (row, size)
        return self._cache.get(key) or self._cache.put(key, self._made(row, size))

    def _made(self, row: int, size: str) -> Picture:
        path = self.index.image_path(row)  # never anything from the client: only what the index itself holds
        found = None if path is None else picture_of_file(Path(path), size, self.limits.pixels)
        return found or missing(self.index.ids[row])

    # -- uploads ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> tuple[str, Upload]:
        """Keep a picture to search by; the oldest is forgotten when there are too many."""
        pixels = decoded(data, self.limits.pixels)
        features = self.index.embed([pixels])
        upload = Upload(features[0], encoded(pixels, SIZES["small"]), (pixels.shape[1], pixels.shape[0]))
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._uploads[name] = upload
            while len(self._uploads) > self.limits.uploads:
                self._uploads.popitem(last=False)
        return name, upload

    def upload(self, name: str) -> Upload:
        """A picture that was brought before."""
        with self._lock:
            if name not in self._uploads:
                raise Missing("that picture is no longer here; bring it again")
            self._uploads.move_to_end(name)
            return self._uploads[name]

    # -- searching ----------------------------------------------------------------------------------------------------

    def space(self, side: str) -> Space:
        """The space a side is ranked in; before the first lesson the previous one is the learned one."""
        return {"raw": self.raw, "learned": self.learned, "previous": self.previous or self.learned}[side]

    def search(
        self, like: list[Reference], unlike: list[Reference], k: int, side: str, labels: list[str] | None = None
    ) -> Found:
        """Items like some and unlike others, best first; those asked with are left out."""
        space = self.space(side)
        own = [ref for ref in (*like, *unlike) if isinstance(ref, int)]
        scores = space.scores(self._vector(space, like, unlike)[None])[0]
        scores[own] = -np.inf
        label = self.label_of(like)
        precision = self._precision(scores, own, label)
        if labels:
            scores = np.where(self._among(labels), scores, -np.inf)
        rows = best(scores[None], min(k, int(np.isfinite(scores).sum())))[0]
        return Found(space, rows, scores[rows], label, precision)

    def _vector(self, space: Space, like: list[Reference], unlike: list[Reference]) -> np.ndarray:
        parts = [(1.0, like), (-UNLIKE if like else -1.0, unlike)]
        means = [weight * self._vectors(space, refs).mean(axis=0) for weight, refs in parts if refs]
        return np.asarray(np.sum(means, axis=0), dtype=np.float32)

    def _vectors(self, space: Space, refs: list[Reference]) -> np.ndarray:
        rows = [self.checked(ref) for ref in refs if isinstance(ref, int)]
        brought = [self.upload(ref).features for ref in refs if isinstance(ref, str)]
        parts = [space.queries(rows)] if rows else []
        return np.concatenate([*parts, *([space.embed(np.array(brought))] if brought else [])])

    def label_of(self, like: list[Reference]) -> str | None:
        """The label that all wanted examples share; None if one is not known."""
        found = {self.labels[ref] if isinstance(ref, int) else None for ref in like}
        return found.pop() if len(found) == 1 else None

    def _precision(self, scores: np.ndarray, own: list[int], label: str | None) -> float | None:
        if label is None:
            return None
        relevant = self._among([label])
        kept = np.ones(len(scores), dtype=bool)
        kept[own] = False
        return average_precision(scores[kept], relevant[kept]) if relevant[kept].any() else None

    def _among(self, labels: list[str]) -> np.ndarray:
        names, codes = self.codes()
        unknown = sorted(set(labels) - set(names))
        if unknown:
            raise Missing(f"no item has the label {unknown[0]!r}")
        return np.isin(codes, [names.index(label) for label in labels])


def _texts(labels: Any, n: int) -> list[str | None]:
    return [None] * n if labels is None else [None if label is None else str(label) for label in labels]
