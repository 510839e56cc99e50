"""set_num_threads and what it decides."""

import os
import subprocess
import sys

import pytest

import dynograd
from dynograd.kernels.build import threads


@pytest.fixture(autouse=True)
def restored():
    before = dynograd.get_num_threads()
    yield
    dynograd.set_num_threads(before)


def test_set_and_get():
    dynograd.set_num_threads(3)
    assert dynograd.get_num_threads() == 3
    dynograd.set_num_threads(1)
    assert threads.parts(10**9) == 1


@pytest.mark.parametrize("wrong", [1.5, "2", None, True])
def test_not_an_int(wrong):
    with pytest.raises(TypeError, match=f"set_num_threads: expected an int, got {type(wrong).__name__}"):
        dynograd.set_num_threads(wrong)


@pytest.mark.parametrize("wrong", [0, -2])
def test_not_positive(wrong):
    with pytest.raises(RuntimeError, match=f"expected a positive number of threads, got {wrong}"):
        dynograd.set_num_threads(wrong)


@pytest.mark.parametrize("text, wanted", [("3", 3), ("5,2", 5), ("0", None), ("many", None)])
def test_the_default_is_omp_num_threads_or_the_processors(text, wanted):
    result = subprocess.run(
        [sys.executable, "-c", "import dynograd; print(dynograd.get_num_threads())"],
        env={**os.environ, "OMP_NUM_THREADS": text},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(result.stdout) == (wanted or len(os.sched_getaffinity(0)))


COLD = """
import random, sys, threading
import numpy
import dynograd as torch
import dynograd.nn.functional as F

sys.setswitchinterval(1e-6)
TASKS = [
    lambda a, b: a @ b,
    lambda a, b: torch.bmm(a.view(4, 10, 50), b.view(4, 50, 15)),
    lambda a, b: F.conv2d(a.view(2, 1, 40, 25), b[:2, :18].reshape(4, 1, 3, 3)),
    lambda a, b: F.scaled_dot_product_attention(a.view(1, 40, 50), a.view(1, 40, 50), a.view(1, 40, 50)),
    lambda a, b: a.softmax(1) * a.log_softmax(0),
    lambda a, b: F.layer_norm(a, (50,)).sort(1)[0].cumsum(0),
    lambda a, b: F.cross_entropy(a, torch.arange(40)),
    lambda a, b: a.std(0) + a.amax(0) + a.logsumexp(0),
    lambda a, b: torch.ragged_tensor([a[:1], a[1:7], a[7:]]).mean(1),
    lambda a, b: F.max_pool2d(a.view(2, 1, 40, 25), 2),
    lambda a, b: torch.compile(lambda x: ((x @ b).tanh() ** 2).mean())(a),
]


def work(results, number):
    together.wait()
    for place in order:
        numbers = numpy.random.default_rng(place)
        a, b = [torch.from_numpy(numbers.standard_normal(s).astype("f")).requires_grad_() for s in ((40, 50), (50, 60))]
        result = TASKS[place](a, b)
        result.square().sum().backward()
        results[number][place] = [tensor.detach().numpy().tobytes() for tensor in (result, a.grad)]


order = list(range(len(TASKS)))
random.Random(int(sys.argv[1])).shuffle(order)
together, results = threading.Barrier(4), [{} for _ in range(4)]
threads = [threading.Thread(target=work, args=(results, number)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(results[0]) == len(TASKS) and all([other == results[0] for other in results])
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_threads_that_begin_at_once(seed, tmp_path):
    """Whatever ops they call first: what the library makes at its first call is made by several of them."""
    program = tmp_path / "cold.py"
    program.write_text(COLD)
    done = subprocess.run([sys.executable, str(program), str(seed)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
