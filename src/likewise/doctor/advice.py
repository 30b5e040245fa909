"""What each problem does to a model, and what to do about it."""

from __future__ import annotations

__all__ = ["ADVICE"]

ADVICE: dict[str, tuple[str, str]] = {
    "not-finite": (
        "Nothing can be fitted: one such value spreads to every score.",
        "Drop these rows or impute them, for example with sklearn.impute.SimpleImputer.",
    ),
    "zero-rows": (
        "A zero row scores 0 with everything, has no cosine, and can appear anywhere in a ranking.",
        "Find out why its features are empty (an unreadable picture, a text without known words) or drop it.",
    ),
    "conflicting-duplicates": (
        "The same item is asked to be both similar and dissimilar: no similarity can satisfy that.",
        "Decide on one label for each row, or drop these rows.",
    ),
    "duplicate-rows": (
        "They count twice in training, and the test is too easy if copies fall on both sides of a split.",
        "Drop the repeats before splitting: numpy.unique(X, axis=0, return_index=True).",
    ),
    "row-scale": (
        "Inner products grow with the norm: long rows dominate the fit and appear in every ranking.",
        "Normalise the rows: sklearn.preprocessing.normalize(X).",
    ),
    "column-scale": (
        "Euclid, cosine and a ridge (alpha) see only the large columns; the small ones carry no weight.",
        "AnchoredSLR standardises them if that helps; else use sklearn.preprocessing.StandardScaler or logarithms.",
    ),
    "constant-columns": (
        "They carry no information; a constant that is not zero adds the same to every raw score.",
        "Nothing has to be done; dropping them saves memory and time.",
    ),
    "duplicate-columns": (
        "They count twice in Euclid and cosine and lower the rank of X; a learned model does not change.",
        "Drop the repeats, or keep them: fit drops directions without variance.",
    ),
    "telling-columns": (
        "The label seems to be among the features: a model will learn to read it and nothing else.",
        "Remove the column, unless it really is known for items without a label.",
    ),
    "interpolates": (
        "The fit interpolates: any target is met exactly, adapting changes nothing, training scores are perfect.",
        "Use a ridge (alpha > 0) or a rank well below the number of rows, and trust only held-out figures.",
    ),
    "rank-deficient": (
        "Some columns are combinations of others; a higher rank is lowered to this one in fit.",
        "Nothing has to be done: fit drops directions without variance.",
    ),
    "ill-conditioned": (
        "Least squares without a ridge amplifies noise along the weakest directions by that much.",
        "Use alpha > 0 (try 0.01 to 1), keep float64, or reduce X by PCA first.",
    ),
    "no-labels": (
        "Similarity is learned from examples of what belongs together; without labels there are none.",
        "Pass y; on the command line name a file (--labels) or a column (--label-column).",
    ),
    "unlabelled": (
        "They are left out of the fit and of every score.",
        "Label them, or use them in the gallery only, where no label is needed.",
    ),
    "label-minus-one": (
        "It counts as a class of its own: a model learns that its rows are similar to each other.",
        "If -1 marks unlabelled or noise rows, drop them before fitting.",
    ),
    "one-class": (
        "Every pair is similar: there is nothing to distinguish.",
        "Add rows of at least one other class.",
    ),
    "all-distinct": (
        "No pair is similar: no query has a relevant item, and average precision is undefined.",
        "Use coarser labels; is this an id column, or a number to be predicted?",
    ),
    "two-classes": (
        "Two classes span one direction: a learned cosine is little more than a sign.",
        "Rank by the inner product instead of the cosine; finer labels help too.",
    ),
    "single-classes": (
        "Such a row has no similar pair: it only shows what it differs from, and is left out of mAP as a query.",
        "Collect at least two rows per class, better ten, or drop these classes.",
    ),
    "imbalance": (
        "Pairs within the largest classes outnumber all others and dominate both the fit and mAP.",
        "Look at macro mAP too, pass balanced sample weights to fit, or subsample the largest classes.",
    ),
    "label-spelling": (
        "They count as different classes, whose items are pushed apart.",
        "Use one spelling.",
    ),
}
