"""Find problems in the data, the most severe first."""

import tomllib
from collections.abc import Iterator, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.rows.doctor.survey import Survey, survey

Severity = Literal["serious", "warning", "note"]
Problem = tuple[str, Severity, str]  # code, severity, and what it is
# What each problem does to a model and what to do about it, by code; in the order of findings of one severity.
_ADVICE = tomllib.loads((Path(__file__).parent / "advice.toml").read_text("utf-8"))

MANY_BYTES = 1 << 30  # of dense float32 rows: the memory limit of a fit
_NORM_SPREAD = 10.0  # largest over smallest row norm (99th over 1st percentile) that shows in a ranking
_COLUMN_SPREAD = 1e3  # largest over smallest column deviation above which the small columns no longer count
_CONDITION = 1e4  # its square, in the Gram matrix, takes eight of the sixteen digits of float64
_IMBALANCE = 20.0  # largest over smallest class


@dataclass(frozen=True)
class Line:
    """One line of docs/choosing.md: what someone has, what to use, and when not to."""

    number: int
    have: str
    use: str
    unless: str


def lines_for(facts: Set[str]) -> list[Line]:
    """The lines that any of the facts makes worth reading; facts are codes of findings and words of choosing.toml."""
    stored = tomllib.loads((Path(__file__).parent / "choosing.toml").read_text("utf-8"))["line"]
    return [
        Line(number, line["have"], line["use"], line["not"])
        for number, line in enumerate(stored, 1)
        if facts & set(line["when"])
    ]


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
    X = _checked(X)
    n, d = X.shape
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (n,):
        raise LikewiseError(f"y has shape {labels.shape}: expected ({n},), a label for each row of X")
    facts = survey(X, labels)
    findings = [Finding(*problem, **_ADVICE[problem[0]]) for check in _CHECKS for problem in check(facts)]
    severities, codes = get_args(Severity), list(_ADVICE)
    findings.sort(key=lambda finding: (severities.index(finding.severity), codes.index(finding.code)))
    k = None if labels is None else facts.k
    lines = lines_for({*(finding.code for finding in findings), *_kind(X, labels)})
    return Findings(n, d, k, facts.rank, facts.rank_is_exact, facts.condition, findings, lines)


def _kind(X: Any, labels: Any) -> Iterator[str]:
    """Words of choosing.toml for the data as a whole."""
    yield "no-labels" if labels is None else "labels"
    if sp.issparse(X):
        yield "sparse"
    elif X.size * 4 > MANY_BYTES:
        yield "many-rows"


def _checked(X: Any) -> Any:
    X = sp.csr_array(X) if sp.issparse(X) else X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.dtype.kind not in "biuf":
        raise LikewiseError(f"X has dtype {X.dtype}: expected real numbers")
    if X.ndim != 2 or 0 in X.shape:
        raise LikewiseError(f"X has shape {X.shape}: expected a matrix with at least one row and one column")
    return X


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
    if facts.minus_one:
        rows = _count(facts.minus_one, "row has", "rows have")
        yield "label-minus-one", "warning", f"{rows} the label -1, beside {facts.k - 1} other classes"
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
