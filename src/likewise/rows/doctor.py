"""Find problems in the data, the most severe first."""

import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigvalsh
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import row_norms
from sklearn.utils.sparsefuncs import min_max_axis

from likewise.errors import LikewiseError
from likewise.utils.arrays import dense
from likewise.utils.validation import is_missing
from likewise.utils.wording import html_table

Severity = Literal["serious", "warning", "note"]
Problem = tuple[str, Severity, str]  # code, severity, and what it is
# What each problem does to a model and what to do about it, by code; in the order of findings of one severity.
_ADVICE = tomllib.loads(Path(__file__).with_name("doctor_advice.toml").read_text("utf-8"))

MANY_BYTES = 1 << 30  # of dense float32 rows: the memory limit of a fit
_NORM_SPREAD = 10.0  # largest over smallest row norm (99th over 1st percentile) that shows in a ranking
_COLUMN_SPREAD = 1e3  # largest over smallest column deviation above which the small columns no longer count
_CONDITION = 1e4  # its square, in the Gram matrix, takes eight of the sixteen digits of float64
_IMBALANCE = 20.0  # largest over smallest class
_BLOCK = 8_000_000  # numbers in a block: 64 MB as float64
_LARGEST_GRAM = 4096  # its eigenvalues take seconds, not minutes
_SAMPLE = 2048  # rows on which the rank is measured if the Gram matrix would be larger
_LARGEST_CLASS_TABLE = 20_000_000  # classes × columns for the search of the label among the features


class Survey:
    """Counts and ranges of rows X and labels y, from one pass over blocks; rows that are not finite are left out."""

    def __init__(self, X: Any, y: np.ndarray | None) -> None:
        self.n, self.d = X.shape
        missing = np.ones(self.n, dtype=bool) if y is None else is_missing(y)
        classes: list[Any] = []
        codes = np.full(self.n, -1)  # the place of each row's label among the classes
        if y is not None and not missing.all():
            present = y[~missing] if y.dtype.kind != "O" else y[~missing].astype(str)  # mixed types cannot be sorted
            distinct, codes[~missing] = np.unique(present, return_inverse=True)
            classes = distinct.tolist()
        self.k = len(classes)
        figures = _Figures(X, codes, self.k)
        good = np.flatnonzero(figures.finite)
        norms = figures.norms[good]
        self.n_finite, self.bad_rows = len(good), self.n - len(good)
        self.bad_columns, self.zero_rows = int(figures.bad_columns.sum()), int((norms == 0).sum())
        # Rows equal to an earlier one, and rows equal to one with another label, without zero rows.
        hashes, labels = figures.row_hashes[good][norms > 0], codes[good][norms > 0]
        unique, group = np.unique(hashes, return_inverse=True)
        known = labels >= 0
        pairs = np.unique(np.column_stack([group[known], labels[known]]), axis=0)
        labels_in_group = np.bincount(pairs[:, 0], minlength=len(unique))
        self.duplicate_rows = len(hashes) - len(unique)
        self.conflicting_rows = int((labels_in_group[group[known]] > 1).sum())
        # Of the rows that are not zero, without the extremes.
        self.norm_range = np.quantile(norms[norms > 0], [0.01, 0.99]).tolist() if norms.any() else (0.0, 0.0)
        constant = (figures.low == figures.high) & (len(good) > 1)
        deviations = np.sqrt(figures.variance[~constant & (figures.variance > 0)])
        self.deviation_range = (deviations.min(), deviations.max()) if len(deviations) else (0.0, 0.0)
        self.constant_columns = int(constant.sum())
        hashes = figures.column_hashes[~constant]
        self.duplicate_columns, self.telling_columns = len(hashes) - len(np.unique(hashes)), figures.telling_columns()
        self.rank, self.rank_is_exact, self.condition = _rank(X, good)
        self.unlabelled = None if y is None else int(missing.sum())
        self.class_sizes = np.bincount(codes[codes >= 0], minlength=self.k)
        groups: dict[str, list[str]] = {}  # labels that differ only by case or blanks
        for name in classes:
            if isinstance(name, str):
                groups.setdefault(" ".join(name.casefold().split()), []).append(name)
        self.spellings = [group for group in groups.values() if len(group) > 1]


class _Figures:
    """Figures on the rows and columns of X: a sparse X at once, by its stored values; others in blocks of float64."""

    def __init__(self, X: Any, codes: np.ndarray, k: int) -> None:
        (n, d), self.codes, self.k = X.shape, codes, k
        self.finite, self.norms, self.row_hashes = np.ones(n, dtype=bool), np.zeros(n), np.zeros(n, dtype=np.uint64)
        self.bad_columns, self.column_hashes = np.zeros(d, dtype=bool), np.zeros(d, dtype=np.uint64)
        self.low, self.high, self.variance = np.full(d, np.inf), np.full(d, -np.inf), np.zeros(d)
        self._scaler = StandardScaler(with_mean=False)
        width = d if 2 <= k < n and k * d <= _LARGEST_CLASS_TABLE else 0
        self._class_low, self._class_high = np.full((k, width), np.inf), np.full((k, width), -np.inf)
        rng = np.random.default_rng(0)
        self._row_weights, self._column_weights = (rng.integers(1 << 64, size=m, dtype=np.uint64) | 1 for m in (n, d))
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64, copy=True)
            X.sum_duplicates()
            X.eliminate_zeros()
        step = n if sp.issparse(X) else max(1, _BLOCK // d)
        for start in range(0, n, step):
            block = X[start : start + step]
            self._take(start, block if sp.issparse(X) else np.asarray(block).astype(np.float64))

    def _take(self, start: int, block: Any) -> None:
        if sp.issparse(block):
            stored = block.tocoo()
            wrong = ~np.isfinite(stored.data)
            rows, columns = stored.row[wrong], stored.col[wrong]
        else:
            rows, columns = np.nonzero(~np.isfinite(block))
        self.bad_columns[columns] = True
        self.finite[start + rows] = False
        where = start + np.flatnonzero(self.finite[start : start + block.shape[0]])
        if not len(where):
            return
        block = block[where - start]
        self.norms[where] = row_norms(block)
        mixed = _mixed(block)
        self.row_hashes[where] = mixed @ self._column_weights
        self.column_hashes += self._row_weights[where] @ mixed
        low, high = _range(block)
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        self.variance = self._scaler.partial_fit(block).var_
        for c in np.unique(self.codes[where]) if self._class_low.size else ():
            if c >= 0:
                low, high = _range(block[self.codes[where] == c])
                self._class_low[c] = np.minimum(self._class_low[c], low)
                self._class_high[c] = np.maximum(self._class_high[c], high)

    def telling_columns(self) -> int:
        """Columns with one value per class, and a different one in every class."""
        candidates = np.flatnonzero((self._class_low == self._class_high).all(axis=0))
        return sum(len(np.unique(self._class_low[:, column])) == self.k for column in candidates)


def _range(block: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each column."""
    return min_max_axis(block, axis=0) if sp.issparse(block) else (block.min(axis=0), block.max(axis=0))


def _mixed(block: Any) -> Any:
    """A well-mixed integer for each value, 0 for zero: sums of them, weighted, tell rows and columns apart."""
    values = block.data if sp.issparse(block) else block
    bits = (values + 0.0).view(np.uint64)  # adding zero turns -0 into 0
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):  # the constants of MurmurHash3
        bits ^= bits >> 33
        bits *= np.uint64(factor)
    bits ^= bits >> 33
    return sp.csr_array((bits, block.indices, block.indptr), block.shape) if sp.issparse(block) else bits


def _rank(X: Any, good: np.ndarray) -> tuple[int | None, bool, float | None]:
    """Rank and condition number by the eigenvalues of the smaller Gram matrix, in float64."""
    n, d = len(good), X.shape[1]
    if not n:
        return None, False, None
    exact = min(n, d) <= _LARGEST_GRAM
    if not exact:
        good = np.sort(np.random.default_rng(0).choice(good, _SAMPLE, replace=False))
    values = eigvalsh(_gram(X, good), overwrite_a=True, check_finite=False)
    # Eigenvalues below the rounding of the Gram matrix, or of the entries of X, count as zero, as in whitening.
    eps = np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps
    floor = values[-1] * max(max(len(good), d) * np.finfo(np.float64).eps, float(8 * eps) ** 2)
    positive = values[values > max(floor, 0.0)]
    if not len(positive):
        return 0, exact, None
    return len(positive), exact, float(np.sqrt(positive[-1] / positive[0])) if exact else None


def _gram(X: Any, good: np.ndarray) -> np.ndarray:
    """XᵀX summed over blocks if X is tall, XXᵀ summed over blocks of columns if it is wide."""
    n, d = len(good), X.shape[1]
    side = min(n, d)
    G = np.zeros((side, side))
    step = max(1, _BLOCK // max(1, side))
    for start in range(0, max(n, d), step):
        stop = start + step
        block = X[good[start:stop]] if d <= n else X[good, start:stop] if sp.issparse(X) else X[:, start:stop][good]
        block = dense(block).astype(np.float64, copy=False)
        G += block.T @ block if d <= n else block @ block.T
    return G


@dataclass(frozen=True)
class Line:
    """One line of docs/choosing.md: what someone has, what to use, and when not to."""

    number: int
    have: str
    use: str
    unless: str


@dataclass(frozen=True)
class Finding:
    """One problem: how severe it is, what it is, what it does to a model, and what to do."""

    code: str
    severity: Severity
    what: str
    effect: str
    remedy: str


@dataclass(frozen=True)
class Findings:
    """All findings, the most severe first, and the figures they are based on."""

    n_rows: int
    n_columns: int
    n_classes: int | None
    rank: int | None
    rank_is_exact: bool
    condition: float | None
    findings: list[Finding] = field(default_factory=list)
    choosing: list[Line] = field(default_factory=list)  # lines of docs/choosing.md: which estimator

    @property
    def serious(self) -> bool:
        """Whether any finding breaks a fit or makes its figures worthless."""
        return any(finding.severity == "serious" for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __contains__(self, code: object) -> bool:
        return any(finding.code == code for finding in self.findings)

    def _repr_html_(self) -> str:
        rows = [(finding.severity, finding.what, finding.effect, finding.remedy) for finding in self]
        return html_table(("severity", "finding", "effect", "remedy"), rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `likewise doctor --json` prints them."""
        return {**asdict(self), "serious": self.serious}


def examine(X: Any, y: Any = None) -> Findings:
    """Look for problems in rows X and labels y.

    X may be dense, memory-mapped or sparse; it is read in blocks, so memory stays at one block, a few numbers per row
    and one Gram matrix of at most 4,096 × 4,096.

    Examples
    --------
    >>> import numpy as np
    >>> findings = examine(np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]]), ["a", "a", "b"])
    >>> [finding.code for finding in findings]
    ['zero-rows', 'single-classes', 'two-classes']
    """
    X = sp.csr_array(X) if sp.issparse(X) else X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.dtype.kind not in "biuf":
        raise LikewiseError(f"X has dtype {X.dtype}: expected real numbers")
    if X.ndim != 2 or 0 in X.shape:
        raise LikewiseError(f"X has shape {X.shape}: expected a matrix with at least one row and one column")
    n, d = X.shape
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (n,):
        raise LikewiseError(f"y has shape {labels.shape}: expected ({n},), a label for each row of X")
    facts = Survey(X, labels)
    findings = [Finding(*problem, **_ADVICE[problem[0]]) for check in _CHECKS for problem in check(facts)]
    severities, codes = get_args(Severity), list(_ADVICE)
    findings.sort(key=lambda finding: (severities.index(finding.severity), codes.index(finding.code)))
    k = None if labels is None else facts.k
    words = {"no-labels" if labels is None else "labels", *(finding.code for finding in findings)}
    words |= {"sparse"} if sp.issparse(X) else {"many-rows"} if X.size * 4 > MANY_BYTES else set()
    stored = enumerate(tomllib.loads(Path(__file__).with_name("choosing.toml").read_text("utf-8"))["line"], 1)
    lines = [Line(n, line["have"], line["use"], line["not"]) for n, line in stored if words & set(line["when"])]
    return Findings(n, d, k, facts.rank, facts.rank_is_exact, facts.condition, findings, lines)


def _row_problems(facts: Survey) -> Iterator[Problem]:
    if facts.bad_rows:
        rows, columns = _count(facts.bad_rows, "row"), _count(facts.bad_columns, "column")
        yield "not-finite", "serious", f"there is NaN or inf in {rows} and {columns}"
    if facts.zero_rows:
        yield "zero-rows", "warning", f"{_count(facts.zero_rows, 'row is', 'rows are')} all zero"
    if facts.conflicting_rows:
        rows = _count(facts.conflicting_rows, "row equals", "rows equal")
        many = facts.conflicting_rows > 0.01 * facts.n
        yield "conflicting-duplicates", "serious" if many else "warning", f"{rows} a row with another label"
    if facts.duplicate_rows:
        rows = _count(facts.duplicate_rows, "row repeats", "rows repeat")
        yield "duplicate-rows", "warning", f"{rows} an earlier row exactly"
    low, high = facts.norm_range
    if low and high >= _NORM_SPREAD * low:
        what = f"row norms differ {high / low:.0f}-fold (98 % of them lie between {low:.3g} and {high:.3g})"
        yield "row-scale", "warning", what


def _column_problems(facts: Survey) -> Iterator[Problem]:
    low, high = facts.deviation_range
    if low and high >= _COLUMN_SPREAD * low:
        what = f"column deviations differ by a factor of {high / low:.1e} (from {low:.3g} to {high:.3g})"
        yield "column-scale", "warning", what
    if facts.constant_columns:
        columns = _count(facts.constant_columns, "column holds", "columns hold")
        yield "constant-columns", "note", f"{columns} one value in every row"
    if facts.duplicate_columns:
        columns = _count(facts.duplicate_columns, "column repeats", "columns repeat")
        yield "duplicate-columns", "note", f"{columns} another column exactly"
    if facts.telling_columns:
        columns = _count(facts.telling_columns, "column has", "columns have")
        yield "telling-columns", "serious", f"{columns} one value in each class and a different one in every class"


def _rank_problems(facts: Survey) -> Iterator[Problem]:
    n, d, rank = facts.n_finite, facts.d, facts.rank
    if rank is not None and rank == n:
        yield "interpolates", "warning", f"X has full row rank: {n} rows, {d} columns, rank {rank}"
    elif rank is not None and rank < min(n, d) and facts.rank_is_exact:
        yield "rank-deficient", "note", f"X has rank {rank}, below its {d} columns"
    if facts.condition is not None and facts.condition >= _CONDITION:
        yield "ill-conditioned", "warning", f"the condition number of X is {facts.condition:.1e}"


def _label_problems(facts: Survey) -> Iterator[Problem]:
    if facts.unlabelled is None:
        yield "no-labels", "serious", "there are no labels"
    elif facts.unlabelled:
        rows = _count(facts.unlabelled, "row has", "rows have")
        yield "unlabelled", "warning" if facts.unlabelled < facts.n else "serious", f"{rows} no label"
    if facts.spellings:
        examples = "; ".join(" and ".join(repr(name) for name in group) for group in facts.spellings[:3])
        yield "label-spelling", "warning", f"some labels differ only by case or blanks: {examples}"


def _class_problems(facts: Survey) -> Iterator[Problem]:
    sizes, k = facts.class_sizes, facts.k
    if k == 1:
        yield "one-class", "serious", "all rows have the same label"
    elif k and k == sizes.sum():
        yield "all-distinct", "serious", f"all {k} labels are distinct"
    elif k:
        if k == 2:
            yield "two-classes", "note", "there are only two classes"
        if singles := int((sizes == 1).sum()):
            have = "has" if singles == 1 else "have"
            yield "single-classes", "warning", f"{singles} of {k} classes {have} one row only"
        if sizes.max() >= _IMBALANCE * sizes.min():
            what = f"the largest class has {sizes.max():,} rows and the smallest {sizes.min():,}"
            yield "imbalance", "warning", what


_CHECKS = (_row_problems, _column_problems, _rank_problems, _label_problems, _class_problems)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
