"""The device layer on the stand-in libcuda: each file of `standin/` runs in a process of its own, where that is the CUDA driver."""

import re
from pathlib import Path

import pytest

from tests.support import standin_cuda

CASES = sorted((Path(__file__).parent / "standin").glob("cases_*.py"))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return standin_cuda.build(tmp_path_factory.mktemp("standin"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_device_layer(path, library, tmp_path):
    more = {"DYNOGRAD_CUDA_SYNC": "1"} if path.stem == "cases_synchronous" else {}
    done = standin_cuda.run(
        library, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}", str(path), **more
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 3
