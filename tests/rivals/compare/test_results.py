"""Verdicts and recommendations, from figures whose right answer is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from likewise.rivals.compare.results import Comparison, Contest, MethodRun, Outcome, Standing

RNG = np.random.default_rng(0)
BASE = RNG.uniform(0.3, 0.7, 200)


def outcome(label: str, score: float, kind: str = "linear", ours: bool = False, **more: float) -> Outcome:
    """A method whose every query is better by `score` than the common base, but for a little noise of its own."""
    noise = np.random.default_rng(len(label)).normal(0, 0.01, len(BASE))
    precision = BASE + score + noise - noise.mean()
    run = MethodRun({"P@1": 0.9}, float(more.get("seconds", 1.0)), int(more.get("width", 10)), {}, precision)
    return Outcome(label, label, kind, ours, [run])


def standing(*outcomes: Outcome) -> Standing:
    return Standing(100, 50, (5, 5), list(outcomes))


def contest(difference: float, p_value: float) -> str:
    return Contest("a", "b", difference, (0.0, 0.0), p_value).verdict


def test_a_tie_is_unsure_or_small_and_a_loss_is_called_one() -> None:
    assert contest(0.02, 0.01) == "ahead"
    assert contest(-0.02, 0.01) == "behind"
    assert contest(0.02, 0.06) == contest(-0.02, 0.06) == "tie"
    assert contest(0.0029, 0.0001) == contest(-0.0029, 0.0001) == "tie"


def test_a_win_is_recommended_with_its_margin() -> None:
    result = standing(
        outcome("cosine", 0.0), outcome("LDA + cosine", 0.05), outcome("SimilarityLearner", 0.071, ours=True)
    )
    assert result.recommendation() == "SimilarityLearner, by 2.1 points of mAP over LDA + cosine (p < 0.001)"
    assert [o.label for o in result.ranked] == ["SimilarityLearner", "LDA + cosine", "cosine"]


def test_a_rival_that_wins_is_recommended_as_plainly() -> None:
    result = standing(outcome("LDA + cosine", 0.05), outcome("SimilarityLearner", 0.03, ours=True))
    assert result.recommendation() == "LDA + cosine, by 2.0 points of mAP over SimilarityLearner (p < 0.001)"
    assert result.contests()["linear"].verdict == "behind"


def test_a_tie_goes_to_the_narrower_and_at_like_width_to_the_better_whatever_their_seconds() -> None:
    ours = outcome("SimilarityLearner", 0.0510, ours=True, seconds=3.0, width=20)
    result = standing(ours, outcome("LDA + cosine", 0.0505, seconds=0.5, width=10)).recommendation()
    assert result.startswith("a tie between SimilarityLearner at ")
    assert "take the narrower, LDA + cosine (10 wide against 20)" in result
    for seconds in (0.1, 30.0):
        result = standing(ours, outcome("LDA + cosine", 0.0505, seconds=seconds, width=19)).recommendation()
        assert result.endswith("take the better, SimilarityLearner (about as wide)")


def test_with_neighbours_is_a_block_of_the_cosines_alone() -> None:
    one, other = outcome("cosine", 0.0), outcome("OASIS", 0.05)
    run = MethodRun({"P@1": 0.9}, 1.0, 10, {}, one.values + 0.1)
    block = standing(replace(one, runs=[replace(one.runs[0], with_neighbours=run)]), other).with_neighbours
    assert block
    assert [o.label for o in block.outcomes] == ["cosine"]
    assert block.outcomes[0].score == pytest.approx(one.score + 0.1)
    assert block.with_neighbours is None
    assert standing(other).with_neighbours is None


def test_a_posterior_comes_with_a_warning_and_gives_way_to_a_cosine_as_good() -> None:
    rival, posterior = outcome("logistic", 0.02, "posterior"), outcome("ours, posterior", 0.05, "posterior", ours=True)
    result = standing(rival, posterior, outcome("ours, cosine", 0.03, "kernel", ours=True))
    assert result.recommendation().startswith("ours, posterior, by 3.0 points of mAP over logistic")
    assert result.recommendation().endswith("if only classes of training will ever be searched")
    result = standing(rival, posterior, outcome("ours, cosine", 0.049, "kernel", ours=True))
    assert result.recommendation() == "ours, cosine, by 2.9 points of mAP over logistic (p < 0.001)"


def test_a_rival_is_held_against_ours_of_its_own_kind() -> None:
    linear, kernel = outcome("our linear", 0.1, ours=True), outcome("our kernel", 0.2, "kernel", ours=True)
    rivals = [outcome("lda", 0.05), outcome("nystroem", 0.19, "kernel"), outcome("logistic", 0.1, "posterior")]
    result = standing(linear, kernel, *rivals)
    peers = [result.against_ours(rival) for rival in rivals]
    assert [peer and peer.one for peer in peers] == ["our linear", "our kernel", "our kernel"]
    assert [round(peer.difference, 6) for peer in peers if peer] == [0.05, 0.01, 0.1]
    assert result.against_ours(linear) is None
    assert set(result.contests()) == {"linear", "kernel"}


def test_what_failed_comes_last_and_takes_no_part() -> None:
    broken = Outcome("broken", "broken", "linear", True, error="LikewiseError: no")
    result = standing(broken, outcome("cosine", 0.0), outcome("lda", 0.05))
    assert result.ranked[-1] is broken
    assert result.recommendation() == "lda, by 5.0 points of mAP over cosine (p < 0.001)"
    assert result.to_dict()["methods"][-1]["error"] == "LikewiseError: no"
    assert standing(broken).recommendation() == "nothing, since no method ran"
    assert standing(broken, outcome("lda", 0.05)).recommendation() == "lda, the only one that ran"


def test_several_splits_are_averaged_and_their_queries_pooled() -> None:
    runs = [
        MethodRun({"P@1": 0.5}, 1.0, 3, {}, np.array([0.2, 0.4])),
        MethodRun({"P@1": 0.7}, 3.0, 3, {}, np.array([0.6, 0.8])),
    ]
    result = Outcome("m", "m", "linear", False, runs)
    assert result.score == pytest.approx(0.5)
    assert result.deviation == pytest.approx(np.std([0.3, 0.7], ddof=1))
    assert (result.figures["P@1"], result.seconds) == pytest.approx((0.6, 2.0))
    np.testing.assert_array_equal(result.values, [0.2, 0.4, 0.6, 0.8])
    assert result.interval
    assert result.interval[0] < 0.5 < result.interval[1]


def test_the_recommendation_is_one_sentence_over_both_tables() -> None:
    seen = standing(outcome("lda", 0.05), outcome("SimilarityLearner", 0.07, ours=True))
    unseen = standing(outcome("cosine", 0.05), outcome("SimilarityLearner (unseen)", 0.02, ours=True))
    result = Comparison(10, 2, 2, 1, 0.3, 0, seen, unseen, None, [])
    assert result.recommendation() == (
        "For known classes: SimilarityLearner, by 2.0 points of mAP over lda (p < 0.001); "
        "for new classes: cosine, by 3.0 points of mAP over SimilarityLearner (unseen) (p < 0.001)."
    )
    assert json.loads(json.dumps(result.to_dict()))["unseen"]["final"]["verdict"] == "behind"
