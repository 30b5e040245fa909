"""What each thing found does to a model, and what to do about it."""

from __future__ import annotations

__all__ = ["ADVICE"]

ADVICE: dict[str, tuple[str, str]] = {
    "not-finite": (
        "Nothing can be fitted: one such value spreads to every score.",
        "Drop these rows or impute them, for example with sklearn.impute.SimpleImputer.",
    ),
    "zero-rows": (
        "A zero row scores 0 with everything, has no cosine, and lands anywhere in a ranking.",
        "Find out why its features are empty (an unreadable picture, a text without known words) or drop it.",
    ),
    "conflicting-duplicates": (
        "The same item is asked to be both similar and dissimilar: no similarity can satisfy that.",
        "Decide on one label for each, or drop them.",
    ),
    "duplicate-rows": (
        "They weigh double in training, and where copies fall on both sides of a split the test is too easy.",
        "Drop the repeats before splitting: numpy.unique(X, axis=0, return_index=True).",
    ),
    "row-scale": (
        "Inner products grow with the norm, so long rows dominate the fit and appear in every ranking.",
        "Normalise the rows: sklearn.preprocessing.normalize(X).",
    ),
    "column-scale": (
        "Euclid, cosine and a ridge (alpha) see only the large columns; the small ones carry no weight.",
        "AnchoredSLR standardises them where that pays; elsewhere sklearn.preprocessing.StandardScaler or a logarithm.",
    ),
    "constant-columns": (
        "They tell no item from another; a constant that is not zero adds the same to every raw score.",
        "Nothing has to be done; dropping them saves memory and time.",
    ),
    "duplicate-columns": (
        "They count twice in Euclid and cosine and lower the rank of X; what is learned does not change.",
        "Drop the repeats, or leave them: directions without rank are dropped in fit.",
    ),
    "telling-columns": (
        "The label seems to be among the features: a model will learn to read it and know nothing else.",
        "Remove the column, unless it really is known for items without a label.",
    ),
    "interpolates": (
        "It interpolates: any target is met exactly, adapting changes nothing, training scores are perfect.",
        "Use a ridge (alpha > 0) or a rank well below the number of rows, and trust held-out figures only.",
    ),
    "rank-deficient": (
        "Some columns are combinations of others; a rank asked for above this one is lowered to it.",
        "Nothing has to be done: directions without rank are dropped in fit.",
    ),
    "ill-conditioned": (
        "Least squares without a ridge amplifies noise along the weakest directions by that much.",
        "Use alpha > 0 (try 0.01 to 1), keep float64, or reduce X by PCA first.",
    ),
    "no-labels": (
        "Similarity is learned from examples of what belongs together: without labels, nothing can be.",
        "Pass y; on the command line name a file (--labels) or a column (--label-column).",
    ),
    "unlabelled": (
        "They are left out of fitting and of every score.",
        "Label them, or leave them for the gallery, where no label is needed.",
    ),
    "label-minus-one": (
        "It counts as a class of its own: its rows are taught to be similar to each other.",
        "If -1 marks unlabelled or noise rows, drop them before fitting.",
    ),
    "one-class": (
        "Every pair is similar: there is nothing to tell apart.",
        "Add rows of at least one other class.",
    ),
    "all-distinct": (
        "No pair is similar: there is nothing to pull together, and average precision has no relevant item.",
        "Use coarser labels; is this an id column, or a number that was meant to be predicted?",
    ),
    "two-classes": (
        "Two classes span one direction, so a learned cosine is little more than a sign.",
        "Rank by the inner product, not by its cosine; finer labels teach more.",
    ),
    "single-classes": (
        "Such a row has no partner: it teaches only what it differs from, and its query is left out of mAP.",
        "Collect at least two rows a class, better ten, or drop these classes.",
    ),
    "imbalance": (
        "Pairs within the largest classes outnumber all others and decide both the fit and the mean.",
        "Read macro mAP beside mAP, pass balanced sample weights to fit, or thin out the largest classes.",
    ),
    "label-spelling": (
        "They count as different classes, whose items are pushed apart.",
        "Spell them one way.",
    ),
}
