"""The version, and which CUDA a build was made for: none, GPU libraries are found when they are needed."""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]

__version__ = "0.1.0"
cuda: str | None = None
hip: str | None = None
debug = False
git_version = "unknown"
