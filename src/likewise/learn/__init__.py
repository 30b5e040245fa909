"""The estimators, and the mathematics one door further: maths, engines, choose."""
