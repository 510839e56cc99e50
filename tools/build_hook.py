"""Hatchling's hook for wheels: compiled kernels for levels of processors go into them (`dynograd.tools.packing`).

`pip install .` makes the pack of this machine's level, which takes minutes; `DYNOGRAD_PACK=0` leaves it out, and so does an editable install.
`DYNOGRAD_PACK_LEVELS=x86-64-v3,x86-64-v4` names the levels for a release. Where the pack cannot be made, the wheel is built without it, and
kernels are compiled when they are first called: that is no reason to have no dynograd. A level that was asked for by name is an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging import tags

_PROGRAM = """
import sys
from dynograd.tools.packing import make_pack
make_pack(sys.argv[2].split(",") if sys.argv[2] else (), sys.argv[1], programs=sys.argv[3].split(",") if sys.argv[3] else None)
"""


class PackHook(BuildHookInterface[Any]):
    """Adds `dynograd/kernels/packs/` to a wheel, which is then for one platform and any Python."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Compiling takes what running takes."""
        return [] if _is_off() else list(self.metadata.core.dependencies)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Makes the packs before the files of a wheel are collected."""
        if self.target_name != "wheel" or version == "editable" or _is_off():
            return
        self._folder = tempfile.TemporaryDirectory(prefix="dynograd-wheel-")
        levels = os.environ.get("DYNOGRAD_PACK_LEVELS", "")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([self.root, *filter(None, sys.path)])}
        command = [
            sys.executable,
            "-c",
            _PROGRAM,
            self._folder.name,
            levels,
            os.environ.get("DYNOGRAD_PACK_PROGRAMS", ""),
        ]
        done = subprocess.run(command, env=environment, cwd=self._folder.name, stdout=sys.stderr)
        if done.returncode:
            self._folder.cleanup()
            if levels:
                raise RuntimeError(f"the packs of compiled kernels for {levels} could not be made; see above.")
            self.app.display_error(
                "dynograd: the pack of compiled kernels could not be made (see above). The wheel is built without it: "
                "kernels are compiled when they are first called."
            )
            return
        for path in sorted(Path(self._folder.name).glob("*.pack")):
            build_data["force_include"][str(path)] = f"dynograd/kernels/packs/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Clears up."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _is_off() -> bool:
    return os.environ.get("DYNOGRAD_PACK", "1").lower() in ("0", "off", "false", "no")


def _platform() -> str:
    """The platform's tag: of Linux without a C library, which `auditwheel` or `wheel tags` adds for a release."""
    if sys.platform == "linux":
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return next(iter(tags.platform_tags()))
