"""What `dir` and completion show is what `listed_names.txt` says. From the top folder:

python -m tests.test_listed_names       writes the file anew; read its diff before you keep it
"""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import dynograd

FILE = Path(__file__).with_name("listed_names.txt")
PLACES = """. nn nn.functional nn.init optim optim.lr_scheduler data Tensor nn.Module ragged linalg amp runs transforms autograd cuda distributions
profiler sparse""".split()


def place_of(path):
    if path == ".":
        return dynograd
    if path in ("Tensor", "nn.Module"):
        return dynograd.Tensor if path == "Tensor" else dynograd.nn.Module
    return importlib.import_module(f"dynograd.{path}")


def listed(path):
    return [name for name in dir(place_of(path)) if not name.startswith("_")]


def written():
    rows = [line.partition(": ") for line in FILE.read_text(encoding="utf-8").splitlines()]
    return {path: names.split() for path, _, names in rows}


@pytest.mark.parametrize("path", PLACES)
def test_names(path):
    names, expected = listed(path), written()[path]
    assert not set(names) - set(expected), "listed now: python -m tests.test_listed_names"
    assert not set(expected) - set(names), "no longer listed"
    lacking = [name for name in names if not hasattr(place_of(path), name)]
    assert not lacking, "listed, but they are not there"


CAME_FOR = {
    ".": """autobatch batched cell Run save_run load_run amp linalg nn optim data ragged ragged_tensor RaggedTensor tensor relu float32 autograd cuda
    no_grad errors set_quiet sparse fft save load vmap warmup Size device""",
    "nn": "Linear Module LSTM CRF TreeLSTM functional init utils Parameter",
    "nn.functional": "cross_entropy relu scaled_dot_product_attention swiglu linear_cross_entropy",
    "optim": "Adam SGD Muon lr_scheduler swa_utils",
    "data": "DataLoader Dataset collate_ragged BucketBatchSampler datasets",
    "Tensor": "relu sum backward grad shape array numpy add_",
    "autograd": "Function grad backward functional graph no_grad set_honest_where",
    "cuda": "is_available synchronize Stream memory_allocated",
    "sparse": "SparseTensor mm",
    "profiler": "profile record_function schedule",
}
INTERNALS = {
    ".": """absolute_power adaptive_avg_pool_backward adaptive_max_pool_places max_pool_places cross_entropy linalg_inv fft_fft special_i1 arrays base
    interpreter kernels compat importlib functools sys warnings Any uncollected behind_one""",
    "nn": "attributes backward_hooks checks layers moves multihead places ragged_attention state variants annotations",
    "nn.functional": "Any explained get_close_matches out_forms public_functions randomized registry variants annotations",
    "optim": "adam elementwise helpers line_searches states together",
    "data": "buckets failures fetch generators iteration memory_files module_below options",
    "autograd": "engine nodes packing writes modes",
    "cuda": "allocator driver faults pinned",
    "optim.lr_scheduler": "base cosines decays",
    "profiler": "Recorder EventList recording listen enum",
    "Tensor": "accumulate_grad adds_directly edges node run_hooks seq take_memory wrap to_device gradients",
}


@pytest.mark.parametrize("path", CAME_FOR)
def test_what_users_come_for_is_listed(path):
    assert set(CAME_FOR[path].split()) <= set(listed(path))


@pytest.mark.parametrize("path", INTERNALS)
def test_internals_work_and_are_not_listed(path):
    names = INTERNALS[path].split()
    assert not set(names) & set(listed(path))
    assert all(hasattr(place_of(path), name) for name in names)


def test_instances():
    class Named(dynograd.Tensor):
        def spoken(self):
            return "one"

    x = dynograd.ones(2)
    x.note = 3
    assert {"note", "relu", "array"} <= set(dir(x)) and not {"node", "seq"} & set(dir(x))
    Named.heard = lambda self: 2
    assert "heard" in dir(Named)
    assert "spoken" in dir(dynograd.ones(2).as_subclass(Named)) and "spoken" in dir(Named)
    batch = dynograd.ragged_tensor([x, x])
    assert {"lengths", "offsets", "values", "statistics", "to_padded", "with_packed", "relu"} <= set(dir(batch))
    assert not {"node", "partition", "place"} & set(dir(batch)) and batch.partition
    net = dynograd.nn.Sequential(dynograd.nn.Linear(2, 3))
    net.inner = dynograd.nn.Linear(3, 1)
    assert {"inner", "parameters"} <= set(dir(net)) and {"weight", "bias"} <= set(dir(net.inner))


def test_what_a_program_puts_on_tensor_is_listed():
    program = (
        "import dynograd; dynograd.Tensor.doubled = lambda self: self * 2\n"
        "assert 'doubled' in dir(dynograd.ones(1)) and 'doubled' in dir(dynograd.Tensor) and 'node' not in dir(dynograd.Tensor)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_star():
    namespace = {}
    exec("from dynograd import *", namespace)
    names = {name for name in namespace if name != "__builtins__"}
    assert names == set(dynograd.__all__) == set(listed("."))
    assert dynograd.__all__ == sorted(dynograd.__all__)


def test_dir_imports_nothing():
    program = (
        "import sys, dynograd; before = set(sys.modules); dir(dynograd), dynograd.__all__;"
        "assert set(sys.modules) == before, set(sys.modules) - before"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def main():
    FILE.write_text("".join(f"{path}: {' '.join(listed(path))}\n" for path in PLACES), encoding="utf-8")


if __name__ == "__main__":
    main()
