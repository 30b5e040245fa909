"""
A folder of pictures, taught by ten marks
=========================================

Pictures without labels: letters in twenty fonts and five colours, turned a little. A network that looks at pictures
finds those of a like colour and slant alike. We mean the letter, and say so with ten marks, as one does on the page of
``likewise PHOTOS/``.
"""

import tempfile
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from likewise.search import Index
from likewise.serve.library import update_library
from likewise.teach import Teacher

# %%
# The folder. In your case it is there already.

letters = "ABCDEFGHKMNPRS"
inks = ["firebrick", "royalblue", "seagreen", "darkorange", "purple"]
fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
families = ("DejaVuSans", "DejaVuSerif", "STIXGeneral", "cmr10", "cmb10", "cmtt10", "cmss10")
files = sorted(path for path in fonts.glob("*.ttf") if path.name.startswith(families) and "Display" not in path.name)
folder = Path(tempfile.mkdtemp()) / "PHOTOS"
folder.mkdir()
rng = np.random.default_rng(0)
for number, font in enumerate(files):
    for letter in letters:
        picture = Image.new("RGB", (140, 140), "white")
        draw = ImageDraw.Draw(picture)
        draw.text((70, 70), letter, font=ImageFont.truetype(font, 96), fill=inks[rng.integers(5)], anchor="mm")
        turned = picture.rotate(rng.uniform(-20, 20), fillcolor="white", resample=Image.Resampling.BICUBIC)
        turned.save(folder / f"{letter}{number:02}.png")

# %%
# Features and an index, as ``likewise PHOTOS/`` makes them; no labels are used. (The names of the files have the
# letter, so that we know later what was right.)

index = Index.load(update_library(folder, labels="none").folder)
truth = np.array([path[0] for path in index.paths])

# %%
# For each letter one query, and a mark on each of its first ten results: right or wrong.


def taught(query):
    """The first 20 results before and after a lesson of ten marks."""
    before = index.search(rows=[query], k=20).rows[0]
    teacher = Teacher(index)
    for row in before[:10]:
        teacher.mark(query, int(row), right=bool(truth[row] == truth[query]))
    return before, teacher.learn().index.search(rows=[query], k=20).rows[0]


queries = {letter: int(np.flatnonzero(truth == letter)[3]) for letter in letters}
results = {letter: taught(query) for letter, query in queries.items()}
right = np.array([[(truth[found] == letter).sum() for found in both] for letter, both in results.items()])
print("right among the first 20, mean of all letters, before and after:", right.mean(axis=0).round(1))

# %%
# One of them. There are 19 other pictures of each letter.

shown = "G"
figure, axes = plt.subplots(4, 11, figsize=(10, 4.2))
for half, (name, found) in enumerate(zip(("before", "after ten marks"), results[shown], strict=True)):
    rows = [queries[shown], *found[:10], None, *found[10:]]
    for axis, row in zip(axes[2 * half : 2 * half + 2].ravel(), rows, strict=True):
        axis.axis("off")
        if row is not None:
            axis.imshow(Image.open(folder / index.paths[row]))
            good = "tab:green" if truth[row] == shown else "tab:red"
            edge = "black" if row == queries[shown] else good
            axis.add_patch(plt.Rectangle((0, 0), 139, 139, fill=False, edgecolor=edge, linewidth=3))
    axes[2 * half, 0].set_title(f"{name}: {(truth[found] == shown).sum()} of 20 right", loc="left", fontsize=10)
figure.tight_layout()
plt.show()
