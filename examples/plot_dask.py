"""
Rows on a Dask cluster
======================

Pass ``fit`` a Dask array, and the passes run on the workers of the current client. Here the cluster is this machine; on
Kubernetes or SLURM only the line that makes it differs.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client
from sklearn.datasets import load_digits

from likewise import SLR

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32) / 16

# %%
# Eight blocks of rows on two threads.

with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
    rows = da.from_array(X, chunks=(len(X) // 8 + 1, X.shape[1]))
    on_cluster = SLR(rank=9, max_iter=4).fit(rows, y)
in_memory = SLR(rank=9, max_iter=4).fit(X, y)

# %%
# The mean similarity of each digit to each other, as the cluster learned it, and how far the two models are apart.

S = on_cluster.similarity(X, X)
apart = np.abs(S - in_memory.similarity(X, X)).max()
means = np.array([[S[np.ix_(y == a, y == b)].mean() for b in range(10)] for a in range(10)])
print(f"largest difference to the fit in memory: {apart:.1e}")

figure, axis = plt.subplots(figsize=(4.6, 4))
drawn = axis.imshow(means, cmap="viridis")
axis.set(xticks=range(10), yticks=range(10), xlabel="digit", ylabel="digit", title="mean learned similarity")
figure.colorbar(drawn)
figure.tight_layout()
plt.show()
