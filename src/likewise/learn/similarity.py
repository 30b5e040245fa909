"""SimilarityLearner: the recommended estimator, with its settings chosen inside `fit`."""

import copy
import warnings
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel, finite_fit
from likewise.learn.checkpoints import SavedChoice, facts_of
from likewise.learn.choose.anchored_search import GAMMAS, Choice, SearchSpace, choose_setting
from likewise.learn.choose.search import CV, CVResults, given_splits, row_splits
from likewise.learn.choose.unseen import BaseRows, choose_shrinkage_map, chosen_map
from likewise.learn.engines.opening import Rows
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.gate import MOST_ROWS, Gate, learn_gate
from likewise.learn.maths.kernels import BaseMap, Features, Scaling, UnitRows, padded, sample, scaled, scaling_of
from likewise.learn.maths.labels import Seed, generator
from likewise.learn.maths.regressions import RegressionFactory
from likewise.learn.maths.scatter import NOVELTY_ROWS, NoveltyModel, leading_directions
from likewise.learn.maths.setting import SCALINGS, SIZES, Embedding, OutputHead, Setting, checked_settings
from likewise.learn.maths.unseen import ShrinkageMap
from likewise.utils.arrays import Array, dense, evenly_spaced, is_foreign, to_host, unit_rows
from likewise.utils.onnx_graph import Graph
from likewise.utils.progress import progress_bar
from likewise.utils.validation import COUNT, StrOptions

MOST_CHOOSING = 20_000  # rows, of those that are not in memory: more cost time and change no choice
MOST_CLASSES = 1_000  # to choose the settings on: work grows with their square, and more change no choice
ANCHORED_LANDMARKS = 1_500  # of a kernel whose settings ask for an anchored map
FAMILY = ("shrink", "spread", "power")  # settings of the base part
NUMBERS = ("centre", "scale", "limit", "coef", "intercept", "share", "power", "ceiling")
GATE = (
    "gate_",
    *(
        f"gate_{name}_"
        for name in ("rows", "landmarks", "density", "classes", "directions", "centre", "base", "rotation")
    ),
)
FEWEST_ROWS = 50  # of a gallery, for a gate
WIDEST_BASE = 2_048  # columns of a base part alone: new classes vary in directions that are small in the rows of `fit`


class SimilarityLearner(SimilarityModel):
    """Learn a cosine similarity from labels: kernel ridge regression or an adapted linear map, whichever ranks better.

    Rows are scaled to length one and centred. The map is a kernel ridge regression with every row as a landmark, if
    held-out rows are ranked better with it. Else it is linear: the cosines of all pairs are clamped as in `SLR`, a few
    times, while a ridge holds the map close to where it started. Nothing has to be set: scaling, kernel, ridge and how
    far to adapt are chosen on rows held out inside `fit`, then the map is learned again from all rows.

    A vector is [√g · learned, √(1 - g) · base], so that a score is a mixture of the cosine that was learned and one of
    the rows themselves. In a gallery of the classes of `fit`, g is a constant close to one, as close as costs nothing,
    and the base part orders near-duplicates. In a gallery that has items of other classes too, g is the probability
    that an item is of a class of `fit`: `Index.build` learns that from the gallery.

    Parameters
    ----------
    kernel : {"auto", "linear", "rbf"}, default="auto"
        "auto" takes the RBF kernel if held-out rows are ranked better with it.
    scaling : {"auto", "unit", "roots", "standard"}, default="auto"
        Row normalisation: L2; signed square root of the columns, then L2; or standardised columns, then L2. "auto" is
        "unit" unless held-out rows are clearly ranked better another way.
    n_landmarks : int or None, default=None
        Landmarks of the kernel. None is all rows if their n x n kernel fits into the memory limit (15,800 in 1 GB),
        else as many as do (5,000). A number thins them for faster queries; such a map is anchored like a linear one.
    n_components : int or None, default=None
        Width of the vectors, whatever is learned: their leading directions, of length one again, and zeros beyond.
        None is the sum of the learned part, which the classes decide, and the base part; `recall_` says what is lost.
    settings : dict or None, default=None
        Settings to use instead of choosing them, under the names of `setting_`: `settings=model.setting_` learns the
        same map without a search. "gamma" γ of the kernel in units of 1 / mean squared distance (0 is linear), "ridge"
        λ, "scaling", "share" g of the learned part (0 ranks by the base part alone, which is then learned for classes
        that `fit` does not see, with "shrink", "spread" and "power"); "temperature" τ of a posterior instead of the
        learned cosine, or "auto" to choose it (better if every item belongs to a known class; wrong, without a
        warning, otherwise); for anchored maps "geometry" ("one-hot" or "lda"), "adaptation" κ and "trust" s; "bias", a
        constant coordinate, for two classes. Also sizes, which are not chosen: "n_anchors", the reference rows of the
        adaptation step, sampled per class
        (1000; None compares all pairs), "raw_width", the columns of the base part
        (256 leading directions, 2,048 for share 0; None keeps all), and "whitening_width", the
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
    recall_ : float or None
        Recall@10 of vectors of `n_components` columns against whole ones, on rows of `fit`, 2,000 at most.
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

    gate_: dict[str, Any] | None = None
    rotation_: Array = None
    recall_: float | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(GAMMAS))],
        "scaling": [StrOptions({"auto", *SCALINGS})],
        "n_landmarks": [COUNT, None],
        "n_components": [COUNT, None],
        "settings": [dict, None],
        "cv": ["cv_object"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel: str = "auto",
        *,
        scaling: str = "auto",
        n_landmarks: int | None = None,
        n_components: int | None = None,
        settings: dict[str, Any] | None = None,
        cv: CV = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.scaling = scaling
        self.n_landmarks = n_landmarks
        self.n_components = n_components
        self.settings = settings
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    @finite_fit
    def fit(self, X: Array, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the settings on held-out rows, then learn from all of them; a row of weight w counts as w rows.

        X is what `open_rows` takes, or opened by it with a memory limit, a device or a checkpoint. Outside of memory,
        settings are chosen on a part drawn by class, and the map is learned from sums over blocks of rows, computed
        where the rows are. Rows of an array whose label is missing (-1, None, NaN or "") are the gallery that a gate is
        learned from: all of it is taken for taught classes if every row is labelled.
        """
        self._validate_params()
        settings = dict(self.settings or {})
        heated = settings.get("temperature")
        if heated == "auto":
            del settings["temperature"]
        settings = checked_settings(settings)
        sizes = {name: settings.pop(name) for name in SIZES if name in settings}
        width = sizes.pop("whitening_width", None)
        if settings.get("share") == 0:
            sizes.setdefault("raw_width", WIDEST_BASE)
        space = SearchSpace(self.kernel, self.scaling, bool(heated), settings)
        rows = self._open_rows(X, y, sample_weight, width)
        self.classes_, rng = rows.classes, generator(self.random_state)
        unit = UnitRows(rows.engine, scaling_of(rows.engine, space.first_scaling), width)
        anchored = Setting(**_learned(settings)).is_anchored
        few = ANCHORED_LANDMARKS if anchored and self.n_landmarks is None else self.n_landmarks  # None: full resolution
        factory = RegressionFactory(few, **sizes, memory=rows.memory_limit)
        saved = None
        if rows.checkpoint is not None:
            saved = SavedChoice(rows.checkpoint, facts_of(self, rows.engine, rng), unit.mean)
        choice = None if saved is None else saved.choice()
        if choice is None:
            choice = self._choose(rows, unit, space, factory, rng)
            if saved is not None:
                saved.keep(choice)
        unit = unit.under(choice.setting["scaling"])
        self._learn(rows, unit, choice, replace(factory, seed=choice.seed))
        self.setting_, self.cv_results_, self.held_out_ = choice.setting, choice.results.as_dict(), choice.held_out
        self.calibration_ = choice.calibration
        self._keep_novelty(rows)
        self.n_samples_ = rows.n_rows
        self.rotation_ = self.recall_ = None
        self._embedding = self._built_embedding()
        self.rotation_, self.recall_ = self._rotated(self._known_unit_rows())
        self._embedding = self._built_embedding()
        if rows.unlabelled is not None:
            self._learn_gate(rows.unlabelled)
        return self

    def _open_rows(self, X: Array, y: ArrayLike | None, sample_weight: ArrayLike | None, width: int | None) -> Rows:
        """Wide arrays of other libraries are learned in NumPy: their inner products are fewer than a Gram matrix."""
        if is_foreign(X) and (width or X.ndim != 2 or X.shape[0] < X.shape[1]):
            X, y, sample_weight = to_host(X), to_host(y), to_host(sample_weight)
        opened = self._open(X, y, sample_weight, np.inf if (self.settings or {}).get("share") == 0 else FEWEST_ROWS)
        if width is not None and opened.where != "memory":
            raise LikewiseError(f"X is {type(X).__name__}: whitening_width is for arrays in memory")
        X_held = cast(MemoryEngine, opened.engine).X if opened.engine.in_memory else None
        if self.scaling == "standard" and sp.issparse(X_held):
            raise LikewiseError("X is sparse, and scaling='standard' would make it dense: pass 'unit', or dense rows")
        return opened

    def _choose(
        self, rows: Rows, unit: UnitRows, space: SearchSpace, factory: RegressionFactory, rng: np.random.Generator
    ) -> Choice:
        """Settings chosen on held-out rows; for a base part alone, on held-out classes."""
        results = CVResults()
        with progress_bar("choosing settings", None) if self.verbose else nullcontext(lambda: None) as advance:
            if space.fixed.get("share") == 0:
                some, codes, _ = _known_rows(unit)
                base = BaseRows(some, codes, some, factory.base_width(rows.n_features))
                fixed = {name: value for name, value in space.fixed.items() if name in FAMILY}
                choice = choose_shrinkage_map(base.unit, results, rng, advance, fixed)
                learned = asdict(Setting(**{**_learned(space.fixed), "scaling": space.first_scaling}))
                return choice._replace(setting={**learned, **choice.setting})
            drawn, places = sample(rows.engine, self._choosing_rows(rows), rng, MOST_CLASSES)
            unit = unit if drawn is rows.engine else UnitRows(drawn, unit.scaling, unit.width)
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

    def _learn(self, rows: Rows, unit: UnitRows, choice: Choice, factory: RegressionFactory) -> None:
        """The map of the chosen setting, from all rows, and some of the rows for a gate."""
        setting = Setting(**_learned(choice.setting))
        regression = factory(unit, setting.gamma)
        learned = regression.learn(setting, last=True)
        known, codes, places = _known_rows(unit)
        if "shrink" in choice.setting:
            family = ShrinkageMap(**{name: choice.setting[name] for name in FAMILY})
            base = BaseRows(known, codes, known, factory.base_width(rows.n_features)).map(family)
        else:
            base = factory.base_map(unit, setting.share)
        head = setting.head(learned)
        projection, self.offset_ = regression.unfolded(learned.L)
        self.projection_ = np.ascontiguousarray(projection)  # as in a file: products round the same
        self.landmarks_, self.gamma_ = dense(regression.features.landmarks), regression.features.gamma
        self.class_means_ = None if head.means is None else np.ascontiguousarray(head.means)
        self.base_, self.base_centre_ = base.B, base.centre
        self.head_ = {name: value for name, value in vars(head).items() if name != "means"}
        self.reduction_ = unit.reduction
        self.shift_, self.factor_, self.roots_ = unit.scaling.shift, unit.scaling.factor, unit.scaling.roots
        self.known_codes_ = codes
        is_landmark = self.landmarks_ is not None and len(self.landmarks_) == rows.n_rows
        self.known_rows_ = places if is_landmark else known.astype(np.float16)
        for name in GATE:
            self.__dict__.pop(name, None)

    def _keep_novelty(self, rows: Rows) -> None:
        """How far the known classes reach, by some of the rows."""
        rng = np.random.default_rng(0)  # whatever else is drawn stays as it is
        some, _ = sample(rows.engine, NOVELTY_ROWS, rng)
        model = NoveltyModel.of(some.X, some.row_codes, rng)
        for field in fields(NoveltyModel):
            setattr(self, f"novelty_{field.name}_", None if model is None else getattr(model, field.name))

    def _built_embedding(self) -> Embedding:
        head, gate = OutputHead(**self.head_, means=self.class_means_), None
        base, rotation = BaseMap(self.base_centre_, self.base_), self.rotation_
        if self.gate_ is not None:
            kernel = Features(self.gate_landmarks_, self.gate_["gamma"])
            numbers = {name: self.gate_[name] for name in NUMBERS}
            gate = Gate(kernel, self.gate_density_, self.gate_classes_, self.gate_directions_, **numbers)
            base, rotation = BaseMap(self.gate_centre_, self.gate_base_), self.gate_rotation_
        return Embedding(
            Scaling(self.shift_, self.factor_, self.roots_), self.reduction_, Features(self.landmarks_, self.gamma_),
            self.projection_, self.offset_, head, base, self.setting_["share"], gate, rotation,
        )  # fmt: skip

    def _gallery_side(self, X: Array) -> np.ndarray:
        if not hasattr(self, "_embedding"):  # read from a file, or without its gate
            self._embedding = self._built_embedding()
        return self._embedding(X)

    # -- a gallery that has other classes too -------------------------------------------------------------------------

    @property
    def taught_share(self) -> float | None:
        """The share of the gallery, without the rows that `fit` learned from, that is of taught classes.

        None if the model has no gate: then all of a gallery is taken for that.
        """
        return None if self.gate_ is None else float(self.gate_["share"])

    @property
    def closed(self) -> Self:
        """The model without a gate."""
        model = copy.copy(self)
        for name in ("_embedding", *GATE):
            model.__dict__.pop(name, None)
        return model

    def for_gallery(self, gallery: np.ndarray, new_items: str | float = "auto") -> Self:
        """The model with a gate between taught classes and others, learned from the rows of a gallery.

        Rows that `fit` learned from do not count. `new_items` is the share of the others that are of no taught class:
        "auto" estimates it, 0 is the model without a gate. So is what comes of fewer than 50 rows, or of a gallery
        from another source than the labelled rows.
        """
        is_share = isinstance(new_items, int | float) and not isinstance(new_items, bool) and 0 <= new_items < 1
        if new_items != "auto" and not is_share:
            raise LikewiseError(
                f"new_items={new_items!r}; expected 'auto', or the share of new items from 0 to below 1"
            )
        model = self.closed
        model._embedding = model._built_embedding()
        if new_items != 0:
            model._learn_gate(gallery, None if new_items == "auto" else 1 - float(new_items))
        model.gate_rows_ = len(gallery) if new_items == "auto" else None
        return model

    def _learn_gate(self, gallery: np.ndarray, share: float | None = None) -> None:
        """Learn the gate from a gallery, if there is something to learn."""
        rows = self._unknown_rows(gallery)
        if len(rows) < FEWEST_ROWS or self.setting_["share"] == 0:
            return
        known = self._known_unit_rows().astype(rows.dtype, copy=False)
        gate = learn_gate(known, self.known_codes_, rows, share)
        if gate.is_elsewhere and share is None:
            warnings.warn(
                "the gallery seems to be from another source than the labelled rows: its classes look known, but its "
                "rows are unlike the labelled ones. All of it is taken for taught classes, as with new_items=0",
                stacklevel=4,
            )
            return
        base_rows = BaseRows(known, self.known_codes_, np.concatenate([known, rows]), self.base_.shape[1])
        self._keep_gate(gate, base_rows.map(chosen_map(base_rows.unit, np.random.default_rng(0))))
        self._embedding = self._built_embedding()
        self.gate_rotation_, _ = self._rotated(np.concatenate([known, rows]))
        self._embedding = self._built_embedding()

    def _known_unit_rows(self) -> np.ndarray:
        """Unit rows of `fit`, 2,000 at most."""
        rows = self.known_rows_
        return np.asarray(self.landmarks_[rows] if rows.dtype.kind == "i" else rows.astype(np.float32))

    def _rotated(self, rows: np.ndarray) -> tuple[np.ndarray | None, float | None]:
        """The leading directions of vectors of unit rows, if there is a number of them, and the recall@10 in them."""
        if self.n_components is None:
            return None, None
        V = self._embedding.of_unit(rows)
        directions = leading_directions(V, None, min(self.n_components, *V.shape))[1]
        rotation = padded(directions, self.n_components)
        nearest = (_nearest(Z, 10) for Z in (V, unit_rows(V @ rotation)))
        hits = [len(np.intersect1d(*pair)) for pair in zip(*nearest, strict=True)]
        return rotation, float(np.mean(hits) / min(10, len(V) - 1))

    def _unknown_rows(self, gallery: np.ndarray) -> np.ndarray:
        """Unit rows of a gallery that `fit` did not learn from, 2,000 at most."""
        rows = gallery[evenly_spaced(gallery.shape[0], 2 * MOST_ROWS)]
        rows = rows[~self.learned_from(rows)]
        rows = rows[evenly_spaced(rows.shape[0], MOST_ROWS)]
        rows = rows if sp.issparse(rows) or rows.dtype == np.float64 else np.asarray(rows, np.float32)
        return np.asarray(dense(self._embedding.unit(rows))) if rows.shape[0] else np.empty((0, 0))

    def _keep_gate(self, gate: Gate, base: BaseMap) -> None:
        self.gate_landmarks_, self.gate_density_ = gate.features.landmarks, gate.density
        self.gate_classes_ = np.ascontiguousarray(gate.classes)  # as in a file: products round the same
        self.gate_directions_ = np.ascontiguousarray(gate.directions)
        self.gate_centre_, self.gate_base_, self.gate_rotation_ = base.centre, np.ascontiguousarray(base.B), None
        self.gate_ = {"gamma": gate.features.gamma, **{name: getattr(gate, name) for name in NUMBERS}}

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        return 2 * (self._built_embedding().write_onnx(graph, rows),)


def _learned(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without those of the family of base parts."""
    return {name: value for name, value in settings.items() if name not in FAMILY}


def _nearest(V: np.ndarray, k: int) -> np.ndarray:
    """The k nearest other rows of each row."""
    S = V @ V.T
    np.fill_diagonal(S, -np.inf)
    return np.argsort(-S, axis=1, kind="stable")[:, : min(k, len(V) - 1)]


def _known_rows(unit: UnitRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some unit rows drawn by class, their classes, and their places in label order."""
    some, places = sample(unit.engine, MOST_ROWS, np.random.default_rng(0))
    rows = np.asarray(dense(to_host(scaled(unit.pending, some.X))))
    return rows, some.row_codes, places
