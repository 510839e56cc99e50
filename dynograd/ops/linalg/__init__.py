"""Factorizations and linear systems."""
