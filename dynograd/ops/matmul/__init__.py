"""Products of matrices, and sums of products."""
