"""The neural head: NumPy gives what torch would, fewer steps are a part of more, and torch is optional."""

import sys

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.preprocessing import normalize

from likewise.errors import MissingExtraError
from likewise.rivals import NeuralHead
from tests.planted import planted
from tests.search.test_exports import assert_the_graph_agrees


@pytest.fixture(scope="module")
def rows():
    pytest.importorskip("torch")
    return planted(120, 6, 4)


def test_the_posterior_is_that_of_cosines_with_the_hidden_layer(rows):
    X, y = rows
    model = NeuralHead("posterior", n_hidden=16, scale=4.0, n_steps=30, temperature=0.5).fit(X, y)
    hidden = normalize(np.maximum(normalize(X) @ model.hidden_.T + model.bias_, 0))
    np.testing.assert_allclose(np.linalg.norm(model.scores_, axis=1), 4.0)
    np.testing.assert_allclose(model.transform(X) ** 2, softmax(hidden @ model.scores_.T / 0.5, axis=1), atol=1e-12)
    plain = NeuralHead(n_hidden=16, scale=4.0, n_steps=30).fit(X, y)
    np.testing.assert_allclose(plain.transform(X), hidden, atol=1e-12)


def test_a_stop_on_the_way_is_the_model_of_so_many_steps(rows):
    X, y = rows
    both = NeuralHead(n_hidden=16)._trained(X, y, 8.0, [10, 20])
    alone = NeuralHead(n_hidden=16)._trained(X, y, 8.0, [10])
    for one, other in zip(both[10], alone[10], strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(both[10].hidden, both[20].hidden)


def test_training_helps_and_leaves_the_random_numbers_of_torch_alone(rows):
    torch = pytest.importorskip("torch")
    X, y = rows
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, many = (NeuralHead(n_hidden=64, scale=8.0, n_steps=n).fit(X, y).score(X, y) for n in (1, 300))
    assert torch.equal(torch.rand(3), expected)
    assert many > one + 0.1


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"fitting a NeuralHead needs the extra 'torch': pip install"):
        NeuralHead().fit(*planted(30, 4, 3))


@pytest.mark.parametrize("output", ["cosine", "posterior"])
def test_the_graph_gives_the_same_rows(rows, output):
    pytest.importorskip("onnx")
    X, y = rows
    assert_the_graph_agrees(NeuralHead(output, n_hidden=16, n_steps=20, scale=8.0).fit(X, y), X)
