"""Elementwise kernels: of formulas, of NumPy, and those with more than one result or step."""

OF_COMPLEX = {"log1p": "complex_log1p", "logaddexp": "complex_logaddexp"}
"""Ops whose kernel for real numbers will not do for complex ones, and the kernel that does."""
