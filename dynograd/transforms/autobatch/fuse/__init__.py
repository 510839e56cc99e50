"""Fusing: the groups of cells that are used a lot, written as few kernels."""
