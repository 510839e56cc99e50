"""Factorizations, triangles and diagonals."""
