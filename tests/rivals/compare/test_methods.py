"""SLR stops where held-out training rows say so."""

from sklearn.datasets import load_digits

from likewise import SLR
from likewise.rivals.compare.methods import ITERATIONS, StoppedSLR

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]


def test_the_model_is_that_of_the_chosen_iterations_learned_from_all_rows() -> None:
    stopped = StoppedSLR(random_state=0).fit(X, y)
    assert stopped.setting_["max_iter"] in ITERATIONS
    plain = SLR(**stopped.setting_, random_state=0).fit(X, y)
    assert (stopped.transform(X) == plain.transform(X)).all()
    assert (stopped.transform_query(X) == plain.transform_query(X)).all()
