"""How sure the results of a search are: probabilities, the cut-off, and queries unlike anything known."""

from dataclasses import replace

from likewise.errors import LikewiseError
from likewise.search.examples import Examples
from likewise.serve.catalogue import Filters
from likewise.serve.session import Reference, SearchResult, Session
from likewise.serve.space import Space
from likewise.words.search import Phrase


def search(
    session: Session,
    like: list[Reference],
    unlike: list[Reference],
    k: int,
    side: str,
    filters: Filters | None = None,
    offset: int = 0,
    at_most_wrong: float | None = None,
) -> SearchResult:
    """As `Session.search`, with what is known about the results; they end at the cut-off."""
    if at_most_wrong is None:
        found = session.search(like, unlike, k, side, filters, offset)
        return told(session, found, like, unlike)
    found = above(session, like, unlike, side, filters, at_most_wrong)
    shown = slice(offset, offset + k)
    assert found.probabilities is not None
    P = found.probabilities[shown]
    return replace(found, rows=found.rows[shown], scores=found.scores[shown], probabilities=P)


def above(
    session: Session,
    like: list[Reference],
    unlike: list[Reference],
    side: str,
    filters: Filters | None,
    at_most_wrong: float,
) -> SearchResult:
    """All results above a cut-off."""
    found = session.search(like, unlike, len(session), side, filters)
    if not found.space.calibrated or not like:
        raise LikewiseError(why_not(found.space))
    if has_phrases(like, unlike):
        raise LikewiseError("words have no cut-off: what their scores mean was not measured")
    examples = examples_of(session, found.space, like, unlike)
    P = examples.kept(found.rows, at_most_wrong, session.learned_from(found.rows))
    n, wrong = len(P), float((1 - P).sum())
    kept = replace(found, rows=found.rows[:n], scores=found.scores[:n], total=n)
    return replace(kept, probabilities=P, about_wrong=wrong, novelty=examples.novelty)


def told(session: Session, found: SearchResult, like: list[Reference], unlike: list[Reference]) -> SearchResult:
    """Results with their probabilities, and the novelty of the query, where these are known."""
    space = found.space
    if not like or not space.tells or has_phrases(like, unlike):
        return found
    examples = examples_of(session, space, like, unlike)
    P = examples.probabilities(found.rows, session.learned_from(found.rows)) if space.calibrated else None
    return replace(found, probabilities=P, novelty=examples.novelty)


def has_phrases(like: list[Reference], unlike: list[Reference]) -> bool:
    """Whether there are words in a query."""
    return any(isinstance(ref, Phrase) for ref in (*like, *unlike))


def examples_of(session: Session, space: Space, like: list[Reference], unlike: list[Reference]) -> Examples:
    """The examples of a query under the index of a space."""
    assert space.index is not None
    return Examples.of(space.index, session.features(like), session.features(unlike))


def why_not(space: Space) -> str:
    """Why there is no cut-off."""
    if space.calibrated:
        return "a cut-off needs an example to be like"
    if space.index is None:
        return "the raw features have no cut-off: what their scores mean was not measured"
    return "there is no cut-off: this index has no calibration, which a fit by labels or some 16 marks bring"
