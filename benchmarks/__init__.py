"""Timings of dynograd beside PyTorch: the same source run with either library. `python -m benchmarks --help`, README.md."""
