"""
Text, in a vector database
==========================

SciPy's functions, searched by what their documentation says. The vectors are of any model (here an LSA); the labels are
the sub-packages; what was learned goes into LanceDB, a database in a folder, and is asked there.
"""

import importlib
import inspect
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from likewise import SimilarityLearner
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.search.stores import export_to, open_store

# %%
# Texts, labels, vectors.

topics = ["stats", "signal", "linalg", "sparse", "optimize", "ndimage", "interpolate", "integrate", "fft"]
found = {}
for topic in topics:
    module = importlib.import_module(f"scipy.{topic}")
    texts = {name: inspect.getdoc(getattr(module, name)) or "" for name in module.__all__}
    found |= {name: (topic, text) for name, text in texts.items() if len(text) > 200}
names, y = np.array(list(found)), np.array([topic for topic, _ in found.values()])
words, svd = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=2), TruncatedSVD(100, random_state=0)
X = svd.fit_transform(words.fit_transform([text for _, text in found.values()]))

# %%
# Learn from half of the functions. The other half goes into the database.

train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
model = SimilarityLearner(random_state=0).fit(X[train], y[train])
raw = Cosine().fit(X[train])
print(f"mAP of the other half: {raw.score(X[test], y[test]):.3f} raw, {model.score(X[test], y[test]):.3f} learned")

folder = tempfile.mkdtemp()
index = Index.build(model, X[test], {"id": names[test], "label": y[test]})
with open_store(f"lancedb:{folder}/functions.lancedb", "functions") as store:
    print(export_to(index, store))
    questions = ["smooth a noisy recording with a low-pass filter", "area under a curve", "eigenvalues of a matrix"]
    ids, scores = store.search(index.space().embed(svd.transform(words.transform(questions))), k=6)

# %%
# What the database answers; the colour is the sub-package.

label = dict(zip(names, y, strict=True))
figure, axes = plt.subplots(1, 3, figsize=(10, 2.8))
for axis, question, row, values in zip(axes, questions, ids, scores, strict=True):
    axis.barh(range(6), values, color=[f"C{topics.index(label[name])}" for name in row])
    for place, name in enumerate(row):
        axis.text(0.02, place, f"{label[name]}.{name}", va="center", fontsize=8)
    axis.set(title=question.replace(" with", "\nwith"), yticks=[], ylim=(5.5, -0.5), xlabel="similarity")
    axis.title.set_fontsize(9)
figure.tight_layout()
plt.show()
