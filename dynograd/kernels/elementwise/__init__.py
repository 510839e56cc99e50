"""Elementwise kernels: of formulas, of NumPy, and those with more than one result or step."""
