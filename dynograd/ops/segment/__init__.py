"""Rows of different lengths that lie behind one another."""
