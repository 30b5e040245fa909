"""The mathematics: whitening, targets, passes, solvers, kernels and the anchored map. It knows no files."""
