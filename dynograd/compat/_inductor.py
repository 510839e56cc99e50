"""`torch._inductor` for programs that set its options: they change nothing."""

from __future__ import annotations

import sys

from dynograd.compat._dynamo import Settings

__all__ = ["config"]

__path__: list[str] = []  # `import dynograd._inductor.config` is an import of a submodule

config = sys.modules[f"{__name__}.config"] = Settings(f"{__name__}.config")
config.triton, config.cpp = Settings("triton"), Settings("cpp")  # type: ignore[attr-defined]
