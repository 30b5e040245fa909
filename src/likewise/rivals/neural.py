"""A small neural network on the rows: its hidden layer, or its posterior, as the embedding."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from likewise.errors import optional
from likewise.learn.base import project
from likewise.learn.choose.search import Params, Sides
from likewise.learn.maths.labels import generator
from likewise.rivals.common import Baseline, batches, estimator
from likewise.rivals.posteriors import posterior
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import COUNT, StrOptions

_BATCH = 128  # rows per step
_STEP, _DECAY = 0.003, 0.01  # of AdamW
_DROPOUT = 0.5  # share of the hidden layer that a step leaves out


class _Layers(NamedTuple):
    """Weights (h, d) and bias (h,) of the hidden layer, and weights (k, h) of the classes' scores."""

    hidden: np.ndarray
    bias: np.ndarray
    scores: np.ndarray

    def __call__(self, X: Any, temperature: float) -> np.ndarray:
        """Unit rows: the hidden layer, or with a temperature the posterior."""
        Z = project(X, self.hidden)
        z = normalize(np.maximum(Z + self.bias.astype(Z.dtype, copy=False), 0))
        return posterior(project(z, self.scores), temperature) if temperature else z


@estimator
class NeuralHead(Baseline):
    """Two layers on unit rows, trained by cross-entropy on the cosines of the hidden layer with the classes' weights.

    Without the cosines in the loss the hidden layer ranks worse by several points. Trained by AdamW with dropout. The
    number of steps is chosen on held-out training rows, as early stopping does; then all rows are learned from. Needs
    torch to fit, and NumPy alone afterwards.

    Parameters
    ----------
    output : {"cosine", "posterior"}, default="cosine"
        Compare by the cosine of the hidden layer or, for galleries whose classes were all seen in training, by
        √softmax(scores / τ).
    n_hidden : int, default=512
        Width of the hidden layer.
    scale, n_steps, temperature : "auto", or a value
        Factor of the cosines in the loss; steps; τ. "auto" searches `scales`, `steps` and `temperatures` on held-out
        training rows.

    Attributes
    ----------
    hidden_, bias_, scores_ : the layers, as NumPy arrays.
    """

    _grids: ClassVar[dict[str, str]] = {"scale": "scales", "n_steps": "steps", "temperature": "temperatures"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "output": [StrOptions({"cosine", "posterior"})],
        "n_steps": [COUNT, StrOptions({"auto"})],
    }

    output: str = "cosine"
    n_hidden: int = 512
    scale: float | str = "auto"
    n_steps: int | str = "auto"
    temperature: float | str = "auto"
    scales: tuple[float, ...] = (8.0, 4.0)
    steps: tuple[int, ...] = (500, 250, 1000)
    temperatures: tuple[float, ...] = (1.0, 0.25, 0.5, 2.0)
    random_state: Any = None

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        layers = self._trained(rows, codes, setting["scale"], [setting["n_steps"]])[setting["n_steps"]]
        self.hidden_, self.bias_, self.scores_ = (part.astype(rows.dtype) for part in layers)

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        @lru_cache(maxsize=1)
        def trained(scale: float) -> dict[int, _Layers]:
            return self._trained(X, y, scale, self._values("n_steps"))

        def candidate(params: Params) -> Sides:
            layers = trained(params["scale"])[params["n_steps"]]
            return lambda rows: 2 * (layers(rows, params.get("temperature", 0.0)),)

        return candidate

    def _trained(self, X: np.ndarray, y: np.ndarray, scale: float, stops: Sequence[int]) -> dict[int, _Layers]:
        """The layers after each number of steps in `stops`."""
        torch = optional("torch", "fitting a NeuralHead", "torch")
        F, mean, rng = torch.nn.functional, X.mean(axis=0), generator(self.random_state)
        unit = float(np.sqrt(np.mean((X - mean) ** 2))) or 1.0
        rows, codes = torch.from_numpy(((X - mean) / unit).astype(np.float32)), torch.from_numpy(y)
        drawn, layers = batches(np.arange(len(y)), _BATCH, rng), {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            hidden = torch.nn.Linear(X.shape[1], self.n_hidden)
            scores = torch.nn.Linear(self.n_hidden, int(y.max()) + 1, bias=False)
            weights = [*hidden.parameters(), *scores.parameters()]
            optimiser = torch.optim.AdamW(weights, lr=_STEP, weight_decay=_DECAY)
            for number in range(1, max(stops) + 1):
                batch = next(drawn)
                optimiser.zero_grad()
                z = F.normalize(F.dropout(torch.relu(hidden(rows[batch])), _DROPOUT))
                F.cross_entropy(scale * z @ F.normalize(scores.weight).T, codes[batch]).backward()
                optimiser.step()
                if number in stops:
                    W, b, V = (part.detach().double().numpy() for part in (hidden.weight, hidden.bias, scores.weight))
                    layers[number] = _Layers(W / unit, b - W @ mean / unit, scale * normalize(V))
        return layers

    def _temperature(self) -> float:
        return getattr(self, "temperature_", 0.0)

    def _gallery_side(self, X: Any) -> np.ndarray:
        return _Layers(self.hidden_, self.bias_, self.scores_)(self._rows(X), self._temperature())

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        hidden = graph.plus(graph.mapped(self._onnx_rows(graph, rows), self.hidden_.T), self.bias_)
        z = graph.unit(graph.node("Relu", [hidden]))
        if not self._temperature():
            return z, z
        return 2 * (graph.posterior(graph.mapped(z, self.scores_.T), self._temperature()),)
