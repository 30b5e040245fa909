"""SimilarityLearner: the recommended estimator, with its settings chosen inside `fit`."""

import warnings
from contextlib import nullcontext
from dataclasses import fields, replace
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel, finite_fit
from likewise.learn.checkpoints import AnchoredCheckpoint, facts_of
from likewise.learn.choose.anchored_search import GAMMAS, Choice, SearchSpace, choose_setting
from likewise.learn.choose.search import CVResults, given_splits, row_splits
from likewise.learn.choose.unseen import SETTINGS as UNSEEN_SETTINGS
from likewise.learn.choose.unseen import choose_shrinkage_map
from likewise.learn.engines.opening import Rows
from likewise.learn.maths.engine import EngineInMemory
from likewise.learn.maths.kernel_ridge import RegressionFactory
from likewise.learn.maths.kernels import Features, Scaling, UnitRows, sample, scaling_of
from likewise.learn.maths.labels import generator
from likewise.learn.maths.scatter import NOVELTY_ROWS, NoveltyModel
from likewise.learn.maths.setting import SCALINGS, SETTINGS, SIZES, Embedding, OutputHead, Setting, checked_settings
from likewise.learn.maths.unseen import ShrinkageMap
from likewise.utils.arrays import is_foreign, to_host
from likewise.utils.onnx_graph import Graph
from likewise.utils.progress import progress_bar
from likewise.utils.validation import Interval, StrOptions

MOST_CHOOSING = 20_000  # rows, of those that are not in memory: more cost time and change no choice
MOST_CLASSES = 1_000  # to choose the settings on: work grows with their square, and more change no choice
ANCHORED_LANDMARKS = 1_500  # of a kernel whose settings ask for an anchored map


class SimilarityLearner(SimilarityModel):
    """Learn a cosine similarity from labels: kernel ridge regression or an adapted linear map, whichever ranks better.

    Rows are scaled to length one and centred. The map is a kernel ridge regression with every row as a landmark, if
    held-out rows are ranked better with it. Else it is linear: the cosines of all pairs are clamped as in `SLR`, a few
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
        "posterior" compares probabilities of the known classes: better if every item belongs to a known class; wrong,
        without a warning, otherwise.
    scaling : {"auto", "unit", "roots", "standard"}, default="auto"
        Row normalisation: L2; signed square root of the columns, then L2; or standardised columns, then L2. "auto" is
        "unit" unless held-out rows are clearly ranked better another way.
    n_landmarks : int or None, default=None
        Landmarks of the kernel. None is all rows if their n x n kernel fits into the memory limit (15,800 in 1 GB),
        else as many as do (5,000). A number thins them for faster queries; such a map is anchored like a linear one.
    settings : dict or None, default=None
        Settings to use instead of choosing them, under the names of `setting_`: `settings=model.setting_` learns the
        same map without a search. "gamma" γ of the kernel in units of 1 / mean squared distance (0 is linear), "ridge"
        λ, "scaling", "temperature" τ of the posterior, "raw_weight" of the raw cosine in the score; for anchored maps
        "geometry" ("one-hot" or "lda"), "adaptation" κ and "trust" s; "input_weight", "bias" and "raw_only" of the
        output. Also sizes, which are not chosen: "n_anchors", the reference rows of the adaptation step, sampled per
        class (1000; None compares all pairs), "raw_width", the maximum number of raw-feature columns appended to the
        embedding (256 leading principal directions, partially whitened; None keeps all), and "whitening_width", the
        leading directions of the rows to learn in (None is all, but 1,000 for sparse X above 4,096 x 4,096).
    cv : int, splitter, iterable or None, default=None
        Held-out rows as in scikit-learn; None is 30 % of each class, up to four times if that is less than 300 rows.
    random_state : int, RandomState or None, default=None
        Seed of the splits and landmarks; None is a fixed seed.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    setting_, cv_results_ : dict
        What was chosen; what was tried, as in scikit-learn: mAP of held-out rows after learning from "rows" others.
    held_out_ : dict or None
        Held-out performance: "mAP", number of held-out "rows", number of "splits", training rows per split
        ("learned_from", 3,000 at most); "raw" is the mAP of the plain cosine; "mAP_interval" and "raw_interval" are
        95 % intervals over rows. None if nothing could be held out.
    projection_, offset_, landmarks_, gamma_, shift_, factor_, … : fitted projection, kernel and scaling.
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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(GAMMAS))],
        "unseen_classes": ["boolean"],
        "output": [StrOptions({"cosine", "posterior"})],
        "scaling": [StrOptions({"auto", *SCALINGS})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "settings": [dict, None],
        "cv": ["cv_object"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel: str = "auto",
        *,
        unseen_classes: bool = False,
        output: str = "cosine",
        scaling: str = "auto",
        n_landmarks: int | None = None,
        settings: dict[str, Any] | None = None,
        cv: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.unseen_classes = unseen_classes
        self.output = output
        self.scaling = scaling
        self.n_landmarks = n_landmarks
        self.settings = settings
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    @finite_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the settings on held-out rows, then learn from all of them; a row of weight w counts as w rows.

        X is what `open_rows` takes, or opened by it with a memory limit, a device or a checkpoint. Outside of memory,
        settings are chosen on a part drawn by class, and the map is learned from sums over blocks of rows, computed
        where the rows are.
        """
        self._validate_params()
        settings = checked_settings(self.settings, UNSEEN_SETTINGS if self.unseen_classes else SETTINGS)
        sizes = {name: settings.pop(name) for name in SIZES if name in settings}
        width = sizes.pop("whitening_width", None)
        space = SearchSpace(self.kernel, self.scaling, self.output == "posterior", settings)
        rows = self._open_rows(X, y, sample_weight, width)
        self.classes_, rng = rows.classes, generator(self.random_state)
        unit = UnitRows(rows.engine, scaling_of(rows.engine, space.first_scaling), width)
        anchored = not self.unseen_classes and Setting(**settings).is_anchored
        few = ANCHORED_LANDMARKS if anchored and self.n_landmarks is None else self.n_landmarks  # None: full resolution
        factory = RegressionFactory(few, **sizes, memory=rows.memory_limit)
        saved = None
        if rows.checkpoint is not None:
            saved = AnchoredCheckpoint(rows.checkpoint, facts_of(self, rows.engine, rng), unit.mean)
        choice = None if saved is None else saved.choice()
        if choice is None:
            choice = self._choose(rows, unit, space, factory, rng)
            if saved is not None:
                saved.keep(choice)
        unit = unit.under(choice.setting["scaling"])
        self._learn(unit, choice, replace(factory, seed=choice.seed), saved)
        self.setting_, self.cv_results_, self.held_out_ = choice.setting, choice.results.as_dict(), choice.held_out
        self.calibration_ = choice.calibration
        self._keep_novelty(rows)
        self.centre_, self.n_samples_, self.reduction_ = unit.mean, rows.n_rows, unit.reduction
        self.shift_, self.factor_, self.roots_ = unit.scaling.shift, unit.scaling.factor, unit.scaling.roots
        self._embedding = self._built_embedding()
        return self

    def _open_rows(self, X: Any, y: Any, sample_weight: Any, whitening_width: int | None) -> Rows:
        """Wide arrays of other libraries are learned in NumPy: their inner products are fewer than a Gram matrix."""
        if is_foreign(X) and (whitening_width or X.ndim != 2 or X.shape[0] < X.shape[1]):
            X, y, sample_weight = to_host(X), to_host(y), to_host(sample_weight)
        opened = self._open(X, y, sample_weight)
        if whitening_width is not None and opened.where != "memory":
            raise LikewiseError(f"X is {type(X).__name__}: whitening_width is for arrays in memory")
        X_held = cast(EngineInMemory, opened.engine).X if opened.engine.in_memory else None
        if self.scaling == "standard" and sp.issparse(X_held):
            raise LikewiseError("X is sparse, and scaling='standard' would make it dense: pass 'unit', or dense rows")
        return opened

    def _choose(
        self, rows: Rows, unit: UnitRows, space: SearchSpace, factory: RegressionFactory, rng: np.random.Generator
    ) -> Choice:
        """Settings chosen on held-out rows, or for unseen classes on held-out classes."""
        results, (drawn, places) = CVResults(), sample(rows.engine, self._choosing_rows(rows), rng, MOST_CLASSES)
        unit = unit if drawn is rows.engine else UnitRows(drawn, unit.scaling, unit.width)
        if self.unseen_classes and space.posterior:
            message = "output='posterior' knows the classes of fit alone: unseen_classes=True uses the cosine"
            warnings.warn(message, stacklevel=4)
        with progress_bar("choosing settings", None) if self.verbose else nullcontext(lambda: None) as advance:
            if self.unseen_classes:
                scalings = ("roots",) if space.chooses_scaling else ()
                return choose_shrinkage_map(unit, results, rng, advance, scalings, space.fixed)
            if self.cv is None:
                splits = row_splits(drawn.codes, rng)
            else:
                splits = given_splits(self.cv, rows.given_codes, rows.given_rows[places])
            factory = replace(factory, seed=int(rng.integers(2**31)))
            return choose_setting(unit, splits, space, factory, results, advance, rows.n_rows)

    def _choosing_rows(self, rows: Rows) -> int:
        """Rows to choose on: all in memory; else some ten numbers for each feature and kernel column are held."""
        if rows.where == "memory":
            return rows.n_rows
        widest = max(rows.n_features, (self.n_landmarks or 0) if self.kernel != "linear" else 0)
        return max(min(MOST_CHOOSING, rows.memory_limit // (40 * widest)), 4 * rows.engine.n_classes)

    def _learn(
        self, unit: UnitRows, choice: Choice, factory: RegressionFactory, saved: AnchoredCheckpoint | None
    ) -> None:
        """The map of the chosen setting, from all rows."""
        if self.unseen_classes:
            T = ShrinkageMap(**choice.setting).learned_from(unit)
            self._keep(Features(), T, unit.mean @ T, OutputHead())
            return
        setting = Setting(**choice.setting)
        regression = factory(unit, setting.gamma)
        learned = regression.learn(setting, saved, last=True)
        head = setting.head(learned, factory.raw_directions(unit) if setting.raw_weight else None)
        self._keep(regression.features, *regression.unfolded(learned.L), head)

    def _keep_novelty(self, rows: Rows) -> None:
        """How far the known classes reach, by some of the rows."""
        rng = np.random.default_rng(0)  # whatever else is drawn stays as it is
        some, _ = sample(rows.engine, NOVELTY_ROWS, rng)
        model = NoveltyModel.of(some.X, some.row_codes, rng)
        for field in fields(NoveltyModel):
            setattr(self, f"novelty_{field.name}_", None if model is None else getattr(model, field.name))

    def _keep(self, features: Features, projection: np.ndarray, offset: np.ndarray, head: OutputHead) -> None:
        """What the sides need, as arrays and plain values."""
        self.landmarks_, self.gamma_ = features.landmarks, features.gamma
        self.projection_, self.offset_ = np.ascontiguousarray(projection), offset
        self.class_means_ = None if head.means is None else np.ascontiguousarray(head.means)
        self.raw_directions_ = None if head.directions is None else np.ascontiguousarray(head.directions)
        self.head_ = {name: value for name, value in vars(head).items() if name not in ("means", "directions")}

    def _built_embedding(self) -> Embedding:
        head = OutputHead(**self.head_, means=self.class_means_, directions=self.raw_directions_)
        scaling, features = Scaling(self.shift_, self.factor_, self.roots_), Features(self.landmarks_, self.gamma_)
        return Embedding(scaling, self.reduction_, features, self.projection_, self.offset_, self.centre_, head)

    def _gallery_side(self, X: Any) -> np.ndarray:
        if not hasattr(self, "_embedding"):  # read from a file
            self._embedding = self._built_embedding()
        return self._embedding(X)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        return 2 * (self._built_embedding().write_onnx(graph, rows),)
