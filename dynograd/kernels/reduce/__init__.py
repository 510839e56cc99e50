"""Sums, extremes, norms, quantiles and running sums along dims."""
