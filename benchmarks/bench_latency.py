"""One query, and 64, through `transform_query`: processor time next to a matrix product and to onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import onnxruntime
from threadpoolctl import threadpool_limits

from benchmarks.measure import clusters
from likewise import SimilarityLearner

Row = dict[str, object]


@threadpool_limits.wrap(limits=1)
def rows() -> Iterator[Row]:
    """Of 2,000 rows of 384 columns in 50 classes; one thread each."""
    X, y = clusters(2_000, 384, 50)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for kernel, most in (("linear", None), ("rbf", 1.5)):
        model = SimilarityLearner(kernel=kernel, random_state=0).fit(X, y)
        session = onnxruntime.InferenceSession(model.to_onnx(), options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        W = np.ones((X.shape[1], model.transform_query(X[:1]).shape[1]), X.dtype)
        for n in (1, 64):
            Q = np.ascontiguousarray(X[:n])
            ours = _ms(lambda: model.transform_query(Q))  # noqa: B023 (called at once)
            product = _ms(lambda: Q @ W)  # noqa: B023
            graph = _ms(lambda: session.run(["query"], {name: Q}))  # noqa: B023
            yield {
                "what": f"transform_query, kernel {kernel}, {X.shape[1]} → {W.shape[1]}, {n} rows",
                "ours": f"{ours:.3f} ms",
                "rival": f"product {product:.3f} ms, onnxruntime {graph:.3f} ms",
                "ratio": ours / 0.1 if most is None else ours / graph,
                "goal": ("≤ 1 of 0.1 ms" if n == 1 else "") if most is None else f"≤ {most} of onnxruntime",
            }


def _ms(call: Callable[[], object], times: int = 300) -> float:
    """Processor time of a call in milliseconds: the best of five series."""
    series = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            call()
        series.append(time.process_time() - began)
    return 1e3 * min(series) / times
