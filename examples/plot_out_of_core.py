"""
Rows on disk
============

``fit`` takes the name of a ``.npy`` file and reads it block by block, within a limit of memory. The model is that of
the same rows in memory.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from likewise import SLR, open_rows

# %%
# 40,000 rows of 64 columns in 20 classes, in a file: small, so that this page is built quickly. A million rows are read
# in the same way.

rng = np.random.default_rng(0)
y = rng.integers(0, 20, 40_000)
X = (rng.standard_normal((20, 64))[y] + 2 * rng.standard_normal((len(y), 64))).astype(np.float32)
path = Path(tempfile.mkdtemp()) / "rows.npy"
np.save(path, X)

settings = {"rank": 16, "max_iter": 3, "compress": "landmarks", "compress_size": 1000, "random_state": 0}
from_disk = SLR(**settings).fit(open_rows(str(path), y, memory_limit="100MB"))
in_memory = SLR(**settings).fit(X, y)

# %%
# Every similarity of a few hundred pairs, one against the other.

a, b = (model.similarity(X[:60], X[60:120]).ravel() for model in (in_memory, from_disk))
same = (y[:60, None] == y[None, 60:120]).ravel()
print(f"largest difference: {np.abs(a - b).max():.1e}")

figure, axis = plt.subplots(figsize=(4.2, 4))
axis.plot([a.min(), a.max()], [a.min(), a.max()], color="grey", linewidth=1)
axis.scatter(a[~same], b[~same], s=6, label="other classes")
axis.scatter(a[same], b[same], s=10, label="same class")
axis.set(xlabel="fitted in memory", ylabel="fitted from the file", title="similarity of pairs")
axis.legend()
figure.tight_layout()
plt.show()
