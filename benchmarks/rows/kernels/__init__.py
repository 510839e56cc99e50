"""Kernels at stated shapes, beside what the machine could do at best."""

from benchmarks.rows.kernels import elementwise, rowwise, indexing, products, pictures, spectra  # isort: skip

__all__ = ["elementwise", "indexing", "pictures", "products", "rowwise", "spectra"]
