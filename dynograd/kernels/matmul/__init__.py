"""Products of matrices: dense, grouped, sparse."""
