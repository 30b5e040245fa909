"""AnchoredSLR: the recommended estimator, with its settings chosen inside `fit`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from likewise.anchored_resuming import AnchoredCheckpoint, Choice
from likewise.base import SimilarityModel, project
from likewise.checkpoints import facts_of
from likewise.core.anchored_distant import EngineData
from likewise.core.anchored_preparing import Data, Preparation, Setting
from likewise.core.engine import Engine
from likewise.core.heads import Head
from likewise.core.kernels import Basis, Features, Scaling, unit_rows
from likewise.core.unseen import Member, choose_member, member_map
from likewise.data.labels import checked_weights, encode_labels
from likewise.data.memory import MemoryEngine
from likewise.data.memory_limit import DEFAULT_LIMIT, in_bytes
from likewise.data.rows import Opened, elsewhere, open_elsewhere
from likewise.errors import LikewiseError
from likewise.selection.holdout import Split, class_splits, row_splits
from likewise.selection.scaling import SCALINGS, Given, choose_scaling
from likewise.selection.search import Journal, Search, choose, choose_posterior
from likewise.utils.arrays import is_foreign
from likewise.utils.onnx_graph import Graph
from likewise.utils.progress import progress_bar
from likewise.utils.random import generator

__all__ = ["AnchoredSLR"]

WIDTHS = {"auto": (0.0, 0.5, 1.0, 2.0), "linear": (0.0,), "rbf": (0.5, 1.0, 2.0)}
MOST_CHOOSING = 20_000  # rows, of those that are not in memory: more cost time and change no choice
_POSITIVE = Interval(Real, 0, None, closed="neither")
_NON_NEGATIVE = Interval(Real, 0, None, closed="left")


class AnchoredSLR(SimilarityModel):
    """The paper's clamp over all pairs, on cosines, anchored at the fixed solution, optionally behind a kernel.

    Rows are scaled to length one (standardised before, if held-out rows say so clearly) and centred, mapped through an
    RBF kernel if held-out rows say that it pays, and then by a linear map whose targets are class-balanced. The cosines
    of all pairs are clamped as in `SLR`, a few times, while a ridge holds the map close to where it started. Nothing
    has to be set: scaling, kernel, ridge and how far to adapt are chosen on rows held out inside `fit`, then the map is
    learned again from all rows.

    Parameters
    ----------
    kernel : {"auto", "linear", "rbf"}, default="auto"
        "auto" takes the RBF kernel if held-out rows are ranked better with it.
    unseen_classes : bool, default=False
        True learns for items of classes that `fit` does not see: a map that contains the plain cosine, chosen by
        holding out classes.
    output : {"cosine", "posterior"}, default="cosine"
        "posterior" compares the probabilities of the known classes; better when every item is of a known class, and
        silently wrong for any other.
    n_landmarks : int or None, default=1000
        Columns that every row is compared with, drawn by class; None compares all pairs.
    cv : int, splitter, iterable or None, default=None
        Held-out rows: None is 30 % of each class, once (up to four times where that is less than 300 rows); else as
        scikit-learn has it.
    random_state : int, RandomState or None, default=None
        Seed of the splits and landmarks; None is a fixed seed.
    verbose : int, default=0
        1 shows a progress bar.
    memory_limit : int, str or None, default=None
        Bytes, or words such as "1GB", that a fit from disk may take; None is 1 GB.
    checkpoint : path or None, default=None
        A file written when the settings are chosen and after each round of the map; a fit that finds its own goes on
        from there.
    device : str or None, default=None
        A torch device such as "cuda": blocks of rows are moved there. None is where X is: a tensor is learned from in
        torch on its own device.
    scaling : {"auto", "unit", "standard"}, default="auto"
        "unit" takes the direction of a row as it is; "standard" centres every column and divides it by its deviation
        first, for columns in units of their own. "auto" is "unit" unless held-out rows are clearly ranked better the
        other way; it is "unit" for sparse rows and with `unseen_classes`.
    kernel_size : int, default=1500
        Landmarks of the kernel (Nyström).
    whitening_width : int or None, default=None
        Learn in so many leading directions of the unit rows. None is all of them, but 1,000 for sparse X of more than
        4,096 rows and columns, which is never made dense.
    ridge, geometry, pull, confidence, width, temperature : optional
        Settings to fix instead of choosing them: λ; "one-hot" or "lda"; κ; s; γ in units of 1 / mean squared
        distance; τ of the posterior.

    Attributes
    ----------
    setting_ : dict
        What was chosen.
    cv_results_ : dict
        What was tried: "params", "mean_test_score" (mAP of held-out rows) and "seconds". The first two compare the
        scalings, each at its best, on the number of "rows" they name.
    classes_, n_samples_, n_features_in_
    shift_, factor_ : of each column, None where rows are not standardised.
    projection_, offset_ : the map; `landmarks_`, `gamma_` the kernel in front of it, if any; `reduction_` the leading
        directions in front of both, (width, d), if they were reduced.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from likewise import AnchoredSLR
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AnchoredSLR(random_state=0).fit(X[:1200], y[:1200])
    >>> model.score(X[1200:], y[1200:]) > 0.9
    True
    """

    reduction_: np.ndarray | None = None  # files of earlier versions know of none
    shift_: np.ndarray | None = None
    factor_: np.ndarray | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(WIDTHS))],
        "unseen_classes": ["boolean"],
        "output": [StrOptions({"cosine", "posterior"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "cv": ["cv_object"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "memory_limit": [str, Integral, None],
        "checkpoint": [str, os.PathLike, None],
        "scaling": [StrOptions({"auto", *SCALINGS})],
        "kernel_size": [Interval(Integral, 1, None, closed="left")],
        "whitening_width": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [_POSITIVE, None],
        "geometry": [StrOptions({"one-hot", "lda"}), None],
        "pull": [_NON_NEGATIVE, None],
        "confidence": [_NON_NEGATIVE, None],
        "width": [_NON_NEGATIVE, None],
        "temperature": [_POSITIVE, None],
    }

    def __init__(
        self,
        kernel: str = "auto",
        *,
        unseen_classes: bool = False,
        output: str = "cosine",
        n_landmarks: int | None = 1000,
        cv: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        memory_limit: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        device: str | None = None,
        scaling: str = "auto",
        kernel_size: int = 1500,
        whitening_width: int | None = None,
        ridge: float | None = None,
        geometry: str | None = None,
        pull: float | None = None,
        confidence: float | None = None,
        width: float | None = None,
        temperature: float | None = None,
    ) -> None:
        self.kernel = kernel
        self.unseen_classes = unseen_classes
        self.output = output
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.device = device
        self.scaling = scaling
        self.kernel_size = kernel_size
        self.whitening_width = whitening_width
        self.ridge = ridge
        self.geometry = geometry
        self.pull = pull
        self.confidence = confidence
        self.width = width
        self.temperature = temperature

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the settings on held-out rows, then learn from all of them; a row of weight w counts as w rows.

        X is what `SLR.fit` takes. Of rows that are not NumPy's or SciPy's the settings are chosen on a part, drawn by
        class, and what is learned are sums over blocks of rows, computed where the rows are.
        """
        self._validate_params()
        opened = self._opened(X, y, sample_weight)
        if opened is not None:
            return self._fit_elsewhere(opened)
        X, y = self._validated_for_fit(X, y)
        self.classes_, codes = encode_labels(y)
        weights, there = checked_weights(sample_weight, X, codes)
        if not np.any(X.data if sp.issparse(X) else X):
            raise LikewiseError("X holds zeros alone: there is nothing to learn a similarity from")
        if sp.issparse(X) and self.scaling == "standard":
            raise LikewiseError("X is sparse, and scaling='standard' would make it dense: pass 'unit', or dense rows")
        given = Given(X[there], codes[there], len(self.classes_), weights, self.whitening_width)
        data, rng = given.data(self._first_scaling()), generator(self.random_state)
        saved = self._saved(lambda: MemoryEngine(given.X, given.codes, given.n_classes, weights), data.mean, rng)
        self._learn(given.data, saved, rng, lambda: (given, self._splits(codes, rng, there)))
        return self

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Opened | None:
        """An engine for rows that are on disk, on a cluster or in another library; None for those learned in NumPy."""
        if elsewhere(X):
            for name in ("device", "whitening_width"):
                if getattr(self, name) is not None:
                    raise LikewiseError(f"X is {type(X).__name__}: {name} is for arrays in memory")
            return open_elsewhere(self, X, y, sample_weight)
        # Wide rows have smaller inner products than a Gram matrix, and reducing them needs all: both are NumPy's.
        tall = is_foreign(X) and len(X.shape) == 2 and X.shape[0] >= X.shape[1] and self.whitening_width is None
        if self.device is None and not tall:
            return None
        from likewise.data.array_api import open_arrays

        return Opened(*open_arrays(self, X, y, sample_weight))

    def _fit_elsewhere(self, opened: Opened) -> Self:
        """The same on an engine: choose on a sample, then sum over all rows."""
        engine, self.classes_ = opened
        rng, data = generator(self.random_state), EngineData(engine).scaled(self._first_scaling())

        def sample() -> tuple[Given, list[Split]]:
            drawn, rows = data.sample(self._choosing_rows(engine), rng)
            return drawn, self._splits(engine.row_codes, rng, rows)

        self._learn(data.scaled, self._saved(lambda: engine, data.mean, rng), rng, sample)
        return self

    def _first_scaling(self) -> str:
        """The scaling that was asked for, or the one that any other has to beat."""
        return "unit" if self.scaling == "auto" else self.scaling

    def _choosing_rows(self, engine: Engine) -> int:
        """Rows to choose on: some ten numbers for each of their features and kernel columns are held at a time."""
        widest = max(engine.shape[1], self.kernel_size if self.kernel != "linear" else 0)
        limit = in_bytes(DEFAULT_LIMIT if self.memory_limit is None else self.memory_limit)
        return max(min(MOST_CHOOSING, limit // (40 * widest)), 4 * engine.n_classes)

    def _splits(self, codes: np.ndarray, rng: np.random.Generator, there: Any) -> list[Split]:
        """Held-out rows among those that are there; for classes that are not seen, classes are held out instead."""
        return [] if self.unseen_classes else row_splits(codes, self.cv, rng, there)

    def _saved(
        self, engine: Callable[[], Engine], mean: np.ndarray, rng: np.random.Generator
    ) -> AnchoredCheckpoint | None:
        if self.checkpoint is None:
            return None
        return AnchoredCheckpoint(self.checkpoint, facts_of(self, engine(), rng), mean)

    def _learn(
        self,
        scaled: Callable[[str], Data | EngineData],
        saved: AnchoredCheckpoint | None,
        rng: np.random.Generator,
        sample: Callable[[], tuple[Given, list[Split]]],
    ) -> None:
        """Choose on a sample and its splits, unless a checkpoint knows the choice; then learn from all rows, scaled."""
        with progress_bar("choosing settings", None, enabled=bool(self.verbose)) as advance:
            journal = Journal(advance)

            def choose() -> Choice:
                return self._choice(*sample(), journal, rng)

            choice = choose() if saved is None else saved.choice(journal, choose)
            data = scaled(choice.setting["scaling"])
            if self.unseen_classes:
                member = Member(**choice.setting)
                T = data.map(member) if isinstance(data, EngineData) else member_map(data, member)
                self._keep_member(member, T, data.mean)
            else:
                self._learn_map(data, saved, Setting(**choice.setting), choice.seed)
        self.cv_results_ = journal.results()
        self.centre_, self.n_samples_, self.reduction_ = data.mean, data.n, data.reduction
        self.shift_, self.factor_ = data.scaling.shift, data.scaling.factor

    def _learn_map(
        self, data: Data | EngineData, saved: AnchoredCheckpoint | None, setting: Setting, seed: int
    ) -> None:
        fitted = data.prepared(Preparation(self.kernel_size, self.n_landmarks, seed), setting.width)
        L = fitted.map(setting, None if saved is None else saved.rounds(fitted.basis))
        self._keep_map(fitted.features, fitted.basis, L, fitted.head(L, setting), setting)

    def _choice(self, given: Given, splits: list[Split], journal: Journal, rng: np.random.Generator) -> Choice:
        """The settings chosen on held-out rows; more rows need less of a ridge, by the root of their number.

        The ridge is in units of the Gram matrix's mean eigenvalue, which grows with the rows by itself.
        """
        if self.unseen_classes:
            return Choice(asdict(self._member(given.data(self._first_scaling()), journal, rng)), 0)
        prepare = Preparation(self.kernel_size, self.n_landmarks, int(rng.integers(2**31)))
        fixed = self._fixed()
        if self.scaling == "auto":
            fixed["scaling"] = choose_scaling(given, splits, self._widths(), fixed, prepare, journal)
        setting = self._chosen(Search(given.data(fixed["scaling"]), splits, prepare, journal), splits, fixed)
        if self.ridge is None and splits:
            fewer = np.sqrt(np.mean([len(split.train) for split in splits]) / len(given.codes))
            setting = replace(setting, ridge=float(setting.ridge * fewer))
        return Choice(asdict(setting), prepare.seed)

    def _chosen(self, search: Search, splits: list[Split], fixed: dict[str, Any]) -> Setting:
        if not splits:
            return Setting(**fixed)
        fixed.pop("width", None)
        if self.output == "posterior":
            return choose_posterior(search, self._widths(), fixed)
        fixed.pop("temperature", None)
        return choose(search, self._widths(), fixed)

    def _widths(self) -> tuple[float, ...]:
        """Widths of the kernel to try."""
        return WIDTHS[self.kernel] if self.width is None else (self.width,)

    def _fixed(self) -> dict[str, Any]:
        """The settings that are not to be chosen."""
        given = {name: getattr(self, name) for name in ("ridge", "pull", "confidence", "width", "temperature")}
        given["lda"] = None if self.geometry is None else self.geometry == "lda"
        given["scaling"] = None if self.scaling == "auto" else self.scaling
        return {name: value for name, value in given.items() if value is not None}

    def _member(self, data: Data, journal: Journal, rng: np.random.Generator) -> Member:
        if self.output == "posterior":
            warnings.warn(
                "output='posterior' knows the classes of fit alone: unseen_classes=True uses the cosine", stacklevel=6
            )
        repeats = 2 if data.n_classes > 20 else 4  # few classes make a noisy holdout
        splits = class_splits(data.codes, rng, repeats) if data.n_classes >= 4 else []
        return choose_member(data, splits, journal, rng) if splits else Member()

    def _keep_member(self, member: Member, T: np.ndarray, mean: np.ndarray) -> None:
        self._keep(Features(), T, mean @ T, Head())
        self.setting_ = asdict(member)

    def _keep_map(self, features: Features, basis: Basis, L: np.ndarray, head: Head, setting: Setting) -> None:
        self._keep(features, basis.V @ L, basis.offset @ L, head)
        self.setting_ = asdict(setting)

    def _keep(self, features: Features, projection: np.ndarray, offset: np.ndarray, head: Head) -> None:
        """What the sides need, as arrays and plain values."""
        self.landmarks_, self.gamma_ = features.landmarks, features.gamma
        self.projection_, self.offset_ = np.ascontiguousarray(projection), offset
        self.class_means_ = None if head.means is None else np.ascontiguousarray(head.means)
        self.head_ = {name: value for name, value in asdict(head).items() if name != "means"}

    def _gallery_side(self, X: Any) -> np.ndarray:
        X = Scaling(self.shift_, self.factor_)(X)
        if self.reduction_ is not None:
            X = unit_rows(project(X, self.reduction_))
        features = Features(self.landmarks_, self.gamma_)
        Z = np.asarray(features(X) @ self.projection_.astype(X.dtype)) - self.offset_.astype(X.dtype)
        return Head(**self.head_, means=self.class_means_)(Z, lambda: self._centred(X))

    def _centred(self, X: Any) -> np.ndarray:
        return np.asarray((X.toarray() if hasattr(X, "toarray") else X) - self.centre_, dtype=X.dtype)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        """Both sides of `rows` in an ONNX graph."""
        x = rows
        if self.shift_ is not None:
            x = graph.beside([graph.times(graph.plus(x, -self.shift_), self.factor_), graph.filled(x, 1.0)])
        x = graph.unit(x)
        x = x if self.reduction_ is None else graph.unit(graph.mapped(x, self.reduction_.T))
        features = graph.kernel(x, self.landmarks_, self.gamma_)
        z = graph.plus(graph.mapped(features, self.projection_), -self.offset_)
        head = Head(**self.head_, means=self.class_means_)
        return 2 * (head.write_onnx(graph, z, lambda: graph.plus(x, -np.asarray(self.centre_))),)
