"""Segments: rows of different lengths behind one another."""
