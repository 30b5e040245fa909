"""
Words to pictures
=================

A folder of pictures without labels, searched by words, in any of 16 languages, without a network connection. The start
is what EfficientNet-Lite0's own classifier says about a picture, and a sentence encoder that knows what its classes are
called.
"""

import tempfile
from pathlib import Path

import matplotlib.cbook
import matplotlib.pyplot as plt
from PIL import Image
from sklearn.datasets import load_sample_images

from likewise.search import Index
from likewise.serve.library import update_library
from likewise.words.search import Wording, Words

# %%
# Three photographs come with scikit-learn and matplotlib: a temple, a flower, an admiral. Windows of several places in
# each of them make a small library; their names say nothing.

photographs = [Image.fromarray(picture) for picture in load_sample_images().images]
photographs.append(Image.open(matplotlib.cbook.get_sample_data("grace_hopper.jpg")).convert("RGB"))
folder = Path(tempfile.mkdtemp()) / "PHOTOS"
folder.mkdir()
for number, photograph in enumerate(photographs):
    width, height = photograph.size
    side = int(0.6 * min(width, height))
    for place in range(6):
        left, top = (place % 3) * (width - side) // 2, (place // 3) * (height - side)
        photograph.crop((left, top, left + side, top + side)).save(folder / f"IMG_{6 * number + place:04}.png")

index = Index.load(update_library(folder, labels="none").folder)
words = Words(index)

# %%
# Four phrases and the first five pictures for each.

phrases = ["a temple roof", "a flower in a garden", "someone in a uniform", "eine Blume"]
figure, axes = plt.subplots(len(phrases), 5, figsize=(8, 6.6))
for row, phrase in zip(axes, phrases, strict=True):
    hits = words.search(Wording.of([phrase]), k=5)
    for axis, item, score in zip(row, hits.rows, hits.scores, strict=True):
        axis.imshow(Image.open(folder / index.paths[item]))
        axis.set_xlabel(f"{score:.2f}", fontsize=8)
        axis.set(xticks=[], yticks=[])
    row[0].set_title(f"“{phrase}”", loc="left", fontsize=10)
figure.tight_layout()
plt.show()
