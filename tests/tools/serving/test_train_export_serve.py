"""A model that two processes have trained, exported, served without its source, and asked by an existing client."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from dynograd.tools.run import path_of_mpiexec
from tests.tools.serving.test_serve import Server
from tests.tools.serving.train_scorer import ASKED

triton = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("mpi4py") is None or path_of_mpiexec() is None,
        reason="there is no MPI: the extra mpi is not installed",
    ),
]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes have trained and exported a model."""
    folder = tmp_path_factory.mktemp("trained")
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-m", "dynograd.run", "-n", "2", "tests/tools/serving/train_scorer.py", str(folder)],
        env=environment | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [numpy.load(folder / f"losses-{rank}.npy") for rank in range(2)]
    assert all([of_rank[-5:].mean() < of_rank[:5].mean() / 2 for of_rank in losses])
    assert (losses[0] != losses[1]).all(), "each process has rows of its own"
    return folder


def test_the_served_program_answers_as_the_trained_model_bit_for_bit(folder):
    expected = numpy.load(folder / "answers.npz")["scores"]
    assert len(set(expected.tolist())) == len(ASKED)
    server = Server(folder / "scorer.dg", "--batch-invariant")
    try:
        address = server.address.removeprefix("http://")
        with contextlib.closing(triton.InferenceServerClient(address, concurrency=len(ASKED))) as client:
            (described,) = client.get_model_metadata("scorer")["inputs"]
            assert described == {"name": "words", "datatype": "INT64", "shape": [-1]}
            asked = []
            for row in ASKED:
                words = triton.InferInput("words", [len(row)], "INT64")
                words.set_data_from_numpy(numpy.array(row))
                asked.append(client.async_infer("scorer", [words]))
            answers = [each.get_result().as_numpy("output") for each in asked]
        status, told = server.end()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
    numpy.testing.assert_array_equal(numpy.array(answers), expected)
    assert status in (0, -signal.SIGTERM), told


def test_onnxruntime_answers_as_the_trained_model(folder):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    lengths = numpy.array([len(row) for row in ASKED])
    rows = numpy.zeros((len(ASKED), lengths.max()), numpy.int64)
    for padded, row in zip(rows, ASKED):
        padded[: len(row)] = row
    session = runtime.InferenceSession(str(folder / "scorer.onnx"))
    (scores,) = session.run(["output"], {"words": rows, "words_lengths": lengths})
    numpy.testing.assert_allclose(scores, numpy.load(folder / "answers.npz")["scores"], rtol=1e-4, atol=1e-5)
