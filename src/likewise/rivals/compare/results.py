"""The results of a comparison: figures per method, paired tests between methods, and a recommendation."""

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from likewise.evaluate import bootstrap_interval, paired_test
from likewise.learn.choose.search import Split
from likewise.rivals.compare.methods import KINDS
from likewise.utils.reporting.report import Block, Code, Heading, html_of, to_html

TIE_POINTS = 0.3  # × 100: a smaller difference does not matter, however significant
TIE_P = 0.05


@dataclass(frozen=True, eq=False)
class MethodRun:
    """One method on one split; `values` are the metric that is compared by, for each query.

    `with_neighbours` is the same for rows averaged with their neighbours among the searched rows, if it is a cosine.
    """

    figures: dict[str, float]  # mean of each metric; in a mixed gallery also of the queries that are "taught" and "new"
    seconds: float
    width: int
    setting: dict[str, Any]
    values: np.ndarray
    with_neighbours: "MethodRun | None" = None
    model: Any = None  # the fitted model, if `keep_models`


@dataclass(frozen=True, eq=False)
class Outcome:
    """One method over all splits; `error` says why it has no figures, if it failed."""

    name: str
    label: str
    kind: str  # "linear", "kernel" or "posterior"
    ours: bool
    runs: list[MethodRun] = field(default_factory=list)
    error: str | None = None
    remarks: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.error is not None

    @cached_property
    def score(self) -> float:
        """The metric that is compared by, mean over the splits; nan if it failed."""
        return float(np.mean(self._scores)) if self._scores else float("nan")

    @cached_property
    def figures(self) -> dict[str, float]:
        """Each metric by name, mean over the splits: mAP, P@1 and nDCG@10; "taught" and "new" in a mixed gallery."""
        names = self.runs[0].figures if self.runs else {}
        return {name: float(np.mean([run.figures[name] for run in self.runs])) for name in names}

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the splits; None for a single split."""
        return float(np.std(self._scores, ddof=1)) if len(self._scores) > 1 else None

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """95 % bootstrap interval of the score over the queries of all splits."""
        return None if self.failed else bootstrap_interval(self.values)

    @property
    def values(self) -> np.ndarray:
        """The metric that is compared by, for each query of each split."""
        return np.concatenate([run.values for run in self.runs])

    @property
    def seconds(self) -> float:
        """Time to fit, tuning included; mean over the splits."""
        return float(np.mean([run.seconds for run in self.runs])) if self.runs else float("nan")

    @property
    def width(self) -> int:
        """Columns per row in an index."""
        return self.runs[-1].width if self.runs else 0

    def to_dict(self, metric: str = "mAP") -> dict[str, Any]:
        """The figures by name, ready for JSON; `metric` is the one that is compared by."""
        who = {"method": self.name, "label": self.label, "kind": self.kind, "ours": self.ours}
        if self.failed:
            return {**who, "error": self.error}
        figures = {
            **self.figures,
            f"{metric}_interval": list(self.interval or ()),
            f"{metric}_deviation": self.deviation,
            "seconds": self.seconds,
            "width": self.width,
        }
        runs = [{metric: score, "setting": run.setting} for score, run in zip(self._scores, self.runs, strict=True)]
        return {**who, **figures, "splits": runs, "remarks": self.remarks}

    @property
    def _scores(self) -> list[float]:
        return [] if self.failed else [float(run.values.mean()) for run in self.runs]


@dataclass(frozen=True)
class Contest:
    """Two methods on the same queries: the difference in their metric, its interval and its p-value."""

    one: str
    other: str
    difference: float
    interval: tuple[float, float]
    p_value: float

    @property
    def verdict(self) -> str:
        """ "ahead", "behind" or "tie", which is p above .05 or a difference below .3 points."""
        if self.p_value > TIE_P or abs(100 * self.difference) < TIE_POINTS:
            return "tie"
        return "ahead" if self.difference > 0 else "behind"

    @property
    def p(self) -> str:
        """The p-value in words."""
        return "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.2g}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "interval": list(self.interval), "verdict": self.verdict}


@dataclass(frozen=True, eq=False)
class Standing:
    """All methods on the same splits, with the numbers of rows that were learned from and searched.

    `parts` are the row numbers of each split, `metric` the one that is compared by.
    """

    n_train: int
    n_test: int
    n_classes: tuple[int, int]  # learned from, searched
    outcomes: list[Outcome]
    parts: list[Split] = field(default_factory=list, repr=False)
    metric: str = "mAP"
    _contests: dict[tuple[str, str], Contest] = field(default_factory=dict, init=False, repr=False)

    @property
    def ranked(self) -> list[Outcome]:
        """Best first; methods that failed come last."""
        return sorted(self.outcomes, key=lambda o: -np.inf if o.failed else o.score, reverse=True)

    @cached_property
    def with_neighbours(self) -> "Standing | None":
        """The cosines, with each row averaged with its neighbours among the searched rows; None if there are none."""
        runs = {o.name: [run.with_neighbours for run in o.runs if run.with_neighbours] for o in self.outcomes}
        cosines = [replace(o, runs=runs[o.name], remarks=[]) for o in self.outcomes if not o.failed and runs[o.name]]
        return replace(self, outcomes=cosines) if cosines else None

    def contest(self, one: Outcome, other: Outcome) -> Contest:
        """The paired test of two methods over the queries of all splits."""
        key = (one.name, other.name)
        if key not in self._contests:
            test = paired_test(one.values, other.values)
            self._contests[key] = Contest(one.label, other.label, test.difference, test.interval, test.p_value)
        return self._contests[key]

    def against_ours(self, rival: Outcome) -> Contest | None:
        """Ours of the rival's kind, or else our best, against a rival; None for our own methods and failed ones."""
        if rival.ours or rival.failed:
            return None
        peer = self._best(ours=True, kind=rival.kind) or self._best(ours=True)
        return None if peer is None else self.contest(peer, rival)

    def contests(self) -> dict[str, Contest]:
        """Ours against the best rival, for each kind."""
        pairs = {kind: (self._best(ours=True, kind=kind), self._best(ours=False, kind=kind)) for kind in KINDS}
        return {kind: self.contest(one, other) for kind, (one, other) in pairs.items() if one and other}

    def final(self) -> Contest | None:
        """Our best against the best rival of any kind; if either is missing, the best against the second.

        If our cosine ties with our posterior and is not behind the rival, it is preferred: it also ranks new classes.
        """
        ours, rival = self._best(ours=True), self._best(ours=False)
        if ours and rival:
            plain = self._best(ours=True, but="posterior")
            if plain and self.contest(ours, plain).verdict == "tie" and self.contest(plain, rival).verdict != "behind":
                return self.contest(plain, rival)
            return self.contest(ours, rival)
        done = [outcome for outcome in self.ranked if not outcome.failed]
        return self.contest(*done[:2]) if len(done) > 1 else None

    def recommendation(self) -> str:
        """Which method to use, in words."""
        final = self.final()
        if final is None:
            done = [outcome.label for outcome in self.outcomes if not outcome.failed]
            return f"{done[0]}, the only one that ran" if done else "nothing, since no method ran"
        if final.verdict == "tie":
            return self._tie(final)
        names = (final.one, final.other) if final.difference > 0 else (final.other, final.one)
        words = f"{names[0]}, by {abs(100 * final.difference):.1f} points of {self.metric} over {names[1]} ({final.p})"
        return words + self._warning(self._labelled(names[0]))

    def to_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        final = self.final()
        return {
            "n_train": self.n_train,
            "n_test": self.n_test,
            "n_classes_learned": self.n_classes[0],
            "n_classes_searched": self.n_classes[1],
            "methods": [self._row(outcome) for outcome in self.ranked],
            "contests": {kind: contest.to_dict() for kind, contest in self.contests().items()},
            "final": None if final is None else final.to_dict(),
            "recommendation": self.recommendation(),
            "with_neighbours": self.with_neighbours and self.with_neighbours.to_dict(),
        }

    def _row(self, outcome: Outcome) -> dict[str, Any]:
        contest = self.against_ours(outcome)
        return {**outcome.to_dict(self.metric), "against_ours": None if contest is None else contest.to_dict()}

    def _tie(self, final: Contest) -> str:
        """The narrower of two as good, which takes less room and time to search; at about one width the better."""
        pair = (self._labelled(final.one), self._labelled(final.other))
        narrow, wide = sorted(pair, key=lambda outcome: outcome.width)
        if wide.width <= 1.25 * narrow.width:
            narrow, wide = sorted(pair, key=lambda outcome: outcome.score, reverse=True)
            why, what = "better", "about as wide"
        else:
            why, what = "narrower", f"{narrow.width} wide against {wide.width}"
        scores = " and ".join(f"{o.label} at {100 * o.score:.1f}" for o in pair)
        apart = f"{abs(100 * final.difference):.2f} points apart, {final.p}"
        return f"a tie between {scores} ({apart}): take the {why}, {narrow.label} ({what}){self._warning(narrow)}"

    def _warning(self, taken: Outcome) -> str:
        """A posterior only knows the classes of training."""
        return ", if only classes of training will ever be searched" if taken.kind == "posterior" else ""

    def _labelled(self, label: str) -> Outcome:
        return next(outcome for outcome in self.outcomes if outcome.label == label)

    def _best(self, ours: bool, kind: str | None = None, but: str | None = None) -> Outcome | None:
        """The best of ours or of the rivals, of one kind or of every kind except one."""
        fitting = [o for o in self.ranked if o.ours == ours and not o.failed and kind in (None, o.kind)]
        return next((o for o in fitting if o.kind != but), None)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `likewise.compare`: print it, or use `to_dict` or `to_html`."""

    n_rows: int
    n_columns: int
    n_classes: int
    n_splits: int
    test_size: float
    seed: int
    seen: Standing | None
    unseen: Standing | None
    mixed: Standing | None
    remarks: list[str]
    metric: str = "mAP"

    @property
    def standings(self) -> dict[str, Standing]:
        """The tables, by what was searched."""
        tables = {"known classes": self.seen, "new classes": self.unseen, "both in one gallery": self.mixed}
        return {name: standing for name, standing in tables.items() if standing is not None}

    def recommendation(self) -> str:
        """One sentence: what to use for known classes, for new ones, and for both."""
        parts = [f"for {name}: {standing.recommendation()}" for name, standing in self.standings.items()]
        words = "; ".join(parts)
        return f"{words[0].upper()}{words[1:]}."

    def to_dict(self) -> dict[str, Any]:
        """Everything except the figures of each query, ready for JSON."""
        names = ("seen", "unseen", "mixed")
        tables = {name: table and table.to_dict() for name in names for table in [getattr(self, name)]}
        return {**vars(self), **tables, "recommendation": self.recommendation()}

    def to_html(self, title: str = "likewise compare", command: str | None = None) -> str:
        """One self-contained page."""
        from likewise.rivals.compare.rendering import blocks, circumstances

        reproduce: list[Block] = [] if command is None else [Heading("Reproduce"), Code(command)]
        return to_html(title, self.recommendation(), [*blocks(self), *reproduce, circumstances(self)])

    def __str__(self) -> str:
        from likewise.rivals.compare.rendering import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from likewise.rivals.compare.rendering import blocks

        return "\n".join(map(html_of, blocks(self)))
