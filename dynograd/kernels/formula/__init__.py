"""Formulas, their readings as Numba and Triton code, and the scalar functions that such code may call."""
