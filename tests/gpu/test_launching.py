"""The launcher on the stand-in libcuda, in a process where that is the CUDA driver."""

import re
from pathlib import Path

import pytest

from dynograd.cuda import driver
from tests.support import standin_cuda

pytest.importorskip("triton", reason="triton is not installed")
pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
CASES = sorted((Path(__file__).parent / "standin").glob("cases_*.py"))
pytestmark = pytest.mark.skipif(
    driver.is_emulated(), reason="the cases need compilers; in emulation these are interpreters"
)


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_on_the_standin(path, tmp_path, gpu_kernels_seen):
    library = standin_cuda.build(tmp_path)
    done = standin_cuda.run(
        library, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}", str(path),
        PYTHONPATH=str(path.parent), CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 3
    for variants in re.findall(r"launched (\d+) variants", done.stdout):
        gpu_kernels_seen["launched on the stand-in"].update((path.stem, number) for number in range(int(variants)))
