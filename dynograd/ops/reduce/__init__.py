"""Fewer elements: sums, extremes, norms; and running sums."""
