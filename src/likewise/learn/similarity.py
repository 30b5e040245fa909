"""SimilarityLearner: the recommended estimator, with its settings chosen inside `fit`."""

import os
import warnings
from contextlib import nullcontext
from dataclasses import asdict, fields
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.evaluate.calibration import Calibration
from likewise.learn.anchored_checkpoint import AnchoredCheckpoint, Choice
from likewise.learn.base import SimilarityModel, moved_parameters
from likewise.learn.choose.candidates import choose_setting
from likewise.learn.choose.holdout import CVResults, given_splits, row_splits
from likewise.learn.choose.search import ANCHORED, FIXED, SCALINGS, WIDTHS, Options, checked_fixed
from likewise.learn.choose.unseen import choose_shrinkage_map
from likewise.learn.engines.opening import Rows
from likewise.learn.maths.kernels import Features, UnitRows, sample, scaling_of
from likewise.learn.maths.labels import generator
from likewise.learn.maths.novelty import MOST_ROWS as KNOWN_ROWS
from likewise.learn.maths.novelty import KnownClasses
from likewise.learn.maths.preparation import Preparation
from likewise.learn.maths.scaling import Scaling
from likewise.learn.maths.setting import Head, MappedSide, Setting
from likewise.learn.maths.unseen import ShrinkageMap
from likewise.utils.arrays import is_foreign, to_host
from likewise.utils.onnx_graph import Graph
from likewise.utils.progress import progress_bar
from likewise.utils.validation import Interval, StrOptions

MOST_CHOOSING = 20_000  # rows, of those that are not in memory: more cost time and change no choice
MOST_CLASSES = 1_000  # to choose the settings on: work grows with their square, and more change no choice
_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


class SimilarityLearner(SimilarityModel):
    """Class targets regressed on a kernel of the rows, or the paper's clamp on cosines, anchored at the fixed solution.

    Rows are scaled to length one and centred. Where held-out rows are ranked better with it, the map is a kernel ridge
    regression with every row as a landmark. Else it is linear: the cosines of all pairs are clamped as in `SLR`, a few
    times, while a ridge holds the map close to where it started. The score is the cosine of the images, plus a little
    of the raw cosine, which costs nothing and puts near-duplicates first. Nothing has to be set: scaling, kernel, ridge
    and how far to adapt are chosen on rows held out inside `fit`, then the map is learned again from all rows.

    Parameters
    ----------
    kernel : {"auto", "linear", "rbf"}, default="auto"
        "auto" takes the RBF kernel if held-out rows are ranked better with it.
    unseen_classes : bool, default=False
        True learns for classes that `fit` does not see: a map that contains the plain cosine, chosen on held-out ones.
    output : {"cosine", "posterior"}, default="cosine"
        "posterior" compares probabilities of the known classes: better where every item is of one, silently wrong else.
    n_landmarks : int or None, default=1000
        Columns that every row is compared with, drawn by class; None compares all pairs.
    kernel_size : int or None, default=None
        Landmarks of the kernel. None is all rows where their n x n kernel fits into the memory limit (15,800 in 1 GB),
        else as many as do (5,000). A number thins them for faster queries; such a map is anchored like a linear one.
    raw_width : int or None, default=256
        Most columns of the raw part beside the learned one: its leading directions, half whitened. None keeps all.
    scaling : {"auto", "unit", "roots", "standard"}, default="auto"
        The direction of a row; that after signed square roots of the columns; or after standardising them, for columns
        in units of their own. "auto" is "unit" unless held-out rows are clearly ranked better another way.
    whitening_width : int or None, default=None
        Leading directions of the unit rows to learn in. None is all, but 1,000 for sparse X above 4,096 x 4,096.
    fixed : dict or None, default=None
        Settings to fix instead of choosing them: "ridge" λ, "geometry" ("one-hot" or "lda"), "pull" κ, "confidence" s,
        "width" γ in units of 1 / mean squared distance, "temperature" τ of the posterior, "raw_weight" of the raw
        cosine in the score. Geometry, pull and confidence are for anchored maps: a kernel then has 1,500 landmarks.
    cv : int, splitter, iterable or None, default=None
        Held-out rows as in scikit-learn; None is 30 % of each class, up to four times if that is less than 300 rows.
    rows : dict or None, default=None
        Options of `open_rows`, such as {"memory_limit": "2GB"} or {"device": "cuda"}.
    checkpoint : path or None, default=None
        File written when the settings are chosen and after each round; an existing one is resumed. A pass over rows
        on disk that takes minutes keeps its sums beside it, in a file that ends in `.sums`.
    random_state : int, RandomState or None, default=None
        Seed of the splits and landmarks; None is a fixed seed.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    setting_, cv_results_ : dict
        What was chosen; what was tried, as in scikit-learn: mAP of held-out rows after learning from "rows" others.
    held_out_ : dict or None
        What it is worth: "mAP" of the held-out "rows" that chose the settings, in so many "splits", each by a map
        "learned_from" so many others, 3,000 at most; "raw" is the plain cosine's. None if nothing could be held out.
    projection_, offset_, landmarks_, gamma_, shift_, factor_, … : the map, the kernel before it, how rows are scaled.
    classes_, n_samples_, n_features_in_

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from likewise import SimilarityLearner
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SimilarityLearner(random_state=0).fit(X[:1200], y[:1200])
    >>> model.score(X[1200:], y[1200:]) > 0.9
    True
    """

    reduction_: Any = None  # files of earlier versions have none of these
    shift_ = factor_ = raw_directions_ = held_out_ = reduction_
    roots_: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(WIDTHS))],
        "unseen_classes": ["boolean"],
        "output": [StrOptions({"cosine", "posterior"})],
        "n_landmarks": [_AT_LEAST_ONE, None],
        "kernel_size": [_AT_LEAST_ONE, None],
        "raw_width": [_AT_LEAST_ONE, None],
        "scaling": [StrOptions({"auto", *SCALINGS})],
        "whitening_width": [_AT_LEAST_ONE, None],
        "fixed": [dict, None],
        "cv": ["cv_object"],
        "rows": [dict, None],
        "checkpoint": [str, os.PathLike, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @moved_parameters(rows=("memory_limit", "device"), fixed=tuple(FIXED))
    def __init__(
        self,
        kernel: str = "auto",
        *,
        unseen_classes: bool = False,
        output: str = "cosine",
        n_landmarks: int | None = 1000,
        kernel_size: int | None = None,
        raw_width: int | None = 256,
        scaling: str = "auto",
        whitening_width: int | None = None,
        fixed: dict[str, Any] | None = None,
        cv: Any = None,
        rows: dict[str, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.unseen_classes = unseen_classes
        self.output = output
        self.n_landmarks = n_landmarks
        self.kernel_size = kernel_size
        self.raw_width = raw_width
        self.scaling = scaling
        self.whitening_width = whitening_width
        self.fixed = fixed
        self.cv = cv
        self.rows = rows
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the settings on held-out rows, then learn from all of them; a row of weight w counts as w rows.

        X is what `open_rows` takes. Outside of memory, settings are chosen on a part drawn by class, and the map is
        learned from sums over blocks of rows, computed where the rows are.
        """
        self._validate_params()
        options = Options(self.kernel, self.scaling, self.output == "posterior", checked_fixed(self.fixed))
        rows = self._open_rows(X, y, sample_weight)
        self.classes_, rng = rows.classes, generator(self.random_state)
        unit = UnitRows(rows.engine, scaling_of(rows.engine, options.first_scaling), self.whitening_width)
        saved = None if self.checkpoint is None else AnchoredCheckpoint.of(self, rows.engine, rng, unit.mean)
        choice = None if saved is None else saved.choice()
        if choice is None:
            choice = self._choose(rows, unit, options, rng)
            if saved is not None:
                saved.keep(choice)
        unit = unit.under(choice.setting["scaling"])
        self._learn(rows, unit, choice, saved)
        self.setting_, self.cv_results_, self.held_out_ = choice.setting, choice.results.as_dict(), choice.held_out
        self.calibration_ = choice.calibration
        self._keep_known(rows)
        self.centre_, self.n_samples_, self.reduction_ = unit.mean, rows.n_rows, unit.reduction
        self.shift_, self.factor_, self.roots_ = unit.scaling.shift, unit.scaling.factor, unit.scaling.roots
        self._made = self._side
        return self

    def _open_rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Wide arrays of other libraries are learned in NumPy: their inner products are fewer than a Gram matrix."""
        device = (self.rows or {}).get("device")
        if is_foreign(X) and device is None and (self.whitening_width or X.ndim != 2 or X.shape[0] < X.shape[1]):
            X, y, sample_weight = to_host(X), to_host(y), to_host(sample_weight)
        opened = self._open(X, y, sample_weight)
        if self.whitening_width is not None and opened.where != "memory":
            raise LikewiseError(f"X is {type(X).__name__}: whitening_width is for arrays in memory")
        if self.scaling == "standard" and sp.issparse(getattr(opened.engine, "X", None)):
            raise LikewiseError("X is sparse, and scaling='standard' would make it dense: pass 'unit', or dense rows")
        return opened

    def _choose(self, rows: Rows, unit: UnitRows, options: Options, rng: np.random.Generator) -> Choice:
        """Settings chosen on held-out rows, or for unseen classes on held-out classes."""
        results, (drawn, places) = CVResults(), sample(rows.engine, self._choosing_rows(rows), rng, MOST_CLASSES)
        unit = unit if drawn is rows.engine else UnitRows(drawn, unit.scaling, self.whitening_width)
        if self.unseen_classes and self.output == "posterior":
            said = "output='posterior' knows the classes of fit alone: unseen_classes=True uses the cosine"
            warnings.warn(said, stacklevel=3)
        with progress_bar("choosing settings", None) if self.verbose else nullcontext(lambda: None) as advance:
            if self.unseen_classes:
                scalings = ("roots",) if options.scaling == "auto" else ()
                found, held_out, meaning = choose_shrinkage_map(unit, results, rng, advance, scalings)
                return Choice(asdict(found), 0, results, held_out, _plain(meaning))
            if self.cv is None:
                splits = row_splits(drawn.codes, rng)
            else:
                splits = given_splits(self.cv, rows.given_codes, rows.given_rows[places])
            prepare = self._preparation(rows, int(rng.integers(2**31)))
            chosen = choose_setting(unit, splits, options, prepare, results, advance, rows.n_rows)
            return Choice(asdict(chosen.setting), prepare.seed, results, chosen.held_out, _plain(chosen.calibration))

    def _preparation(self, rows: Rows, seed: int) -> Preparation:
        anchored = self.kernel_size is None and any(name in (self.fixed or {}) for name in ANCHORED)
        size = 1500 if anchored else self.kernel_size
        return Preparation(size, self.n_landmarks, seed, rows.memory_limit, self.raw_width)

    def _choosing_rows(self, rows: Rows) -> int:
        """Rows to choose on: all in memory; else some ten numbers for each feature and kernel column are held."""
        if rows.where == "memory":
            return rows.n_rows
        widest = max(rows.n_features, (self.kernel_size or 0) if self.kernel != "linear" else 0)
        return max(min(MOST_CHOOSING, rows.memory_limit // (40 * widest)), 4 * rows.engine.n_classes)

    def _learn(self, rows: Rows, unit: UnitRows, choice: Choice, saved: AnchoredCheckpoint | None) -> None:
        """The map of the chosen setting, from all rows."""
        if self.unseen_classes:
            T = ShrinkageMap(**choice.setting).learned_from(unit)
            self._keep(Features(), T, unit.mean @ T, Head())
            return
        setting, prepare = Setting(**choice.setting), self._preparation(rows, choice.seed)
        sums = None if saved is None else saved.sums(rows.memory_limit)
        learned = prepare(unit, setting.width, sums).learn(setting, saved, last=True)
        head = setting.head(learned, prepare.raw_directions(unit) if setting.beside else None)
        projection, offset = learned.kept
        self._keep(learned.features, projection, offset, head)
        if sums is not None:
            sums.remove()

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _keep_known(self, rows: Rows) -> None:
        """How far the known classes reach, by some of the rows."""
        rng = np.random.default_rng(0)  # whatever else is drawn stays as it is
        some, _ = sample(rows.engine, KNOWN_ROWS, rng)
        known = KnownClasses.of(some.X, some.row_codes, rng)
        for field in fields(KnownClasses):
            setattr(self, f"known_{field.name}_", None if known is None else getattr(known, field.name))

    def _keep(self, features: Features, projection: np.ndarray, offset: np.ndarray, head: Head) -> None:
        """What the sides need, as arrays and plain values."""
        self.landmarks_, self.gamma_ = features.landmarks, features.gamma
        self.projection_, self.offset_ = np.ascontiguousarray(projection), offset
        self.class_means_ = None if head.means is None else np.ascontiguousarray(head.means)
        self.raw_directions_ = None if head.directions is None else np.ascontiguousarray(head.directions)
        self.head_ = {name: value for name, value in vars(head).items() if name not in ("means", "directions")}

    @property
    def _side(self) -> MappedSide:
        head = Head(**self.head_, means=self.class_means_, directions=self.raw_directions_)
        scaling, features = Scaling(self.shift_, self.factor_, self.roots_), Features(self.landmarks_, self.gamma_)
        return MappedSide(scaling, self.reduction_, features, self.projection_, self.offset_, self.centre_, head)

    def _gallery_side(self, X: Any) -> np.ndarray:
        if not hasattr(self, "_made"):  # from a file
            self._made = self._side
        return self._made(X)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        return 2 * (self._side.write_onnx(graph, rows),)


def _plain(calibration: Calibration | None) -> dict[str, Any] | None:
    return None if calibration is None else calibration.as_dict()
