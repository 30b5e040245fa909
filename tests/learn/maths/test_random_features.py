"""Random features: near the kernel they stand for, whatever holds the rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.learn.maths.kernels import Features
from likewise.learn.maths.random_features import RandomFeatures


def test_inner_products_are_near_the_rbf_kernel() -> None:
    rng = np.random.default_rng(0)
    X = normalize(rng.standard_normal((50, 20)))
    K, errors = Features(X, 0.7)(X), []
    for size in (200, 3200):
        phi = RandomFeatures.drawn(20, size, 0.7, rng)(X)
        np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0)
        errors.append(np.abs(phi @ phi.T - K).max())
    assert 2 * errors[1] < errors[0]
    assert errors[1] < 0.08


def test_sparse_rows_tensors_and_onnx_graphs_give_the_same() -> None:
    torch, onnxruntime = pytest.importorskip("torch"), pytest.importorskip("onnxruntime")
    from likewise import SimilarityLearner

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 6)).astype(np.float32), np.arange(40) % 4
    features = RandomFeatures.drawn(6, 32, 0.7, rng)
    np.testing.assert_allclose(features(sp.csr_array(X)), features(X), atol=1e-6)
    np.testing.assert_allclose(features(torch.from_numpy(X)).numpy(), features(X), atol=1e-6)
    fixed = {"ridge": 0.1, "geometry": "lda", "pull": 0.0, "raw_weight": 0.1, "gamma": 0.7}
    model = SimilarityLearner("random", scaling="unit", kernel_size=32, fixed=fixed).fit(X, y)
    (gallery,) = onnxruntime.InferenceSession(model.to_onnx()).run(["gallery"], {"rows": X})
    np.testing.assert_allclose(gallery, model.transform(X), atol=1e-5)
