"""Sorting and choosing the largest."""
