"""The GPU benchmarks where there is no card: what they say, and how they print."""

import pytest

from benchmarks import __main__ as program
from benchmarks.gpu import program as gpu
from benchmarks.gpu.rows import GPU_ROWS
from dynograd import cuda


@pytest.mark.skipif(cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("words", [["gpu"], ["--device", "cuda"]])
def test_without_a_card_nothing_is_measured(words, capsys):
    assert program.main(words) == 1
    said = capsys.readouterr()
    assert said.err.startswith("No GPU to time on: ")
    assert said.err.endswith("Nothing was measured.\n")
    assert not said.out


def test_rows_are_listed(capsys):
    assert program.main(["gpu", "--list", "matmul.8192*"]) == 0
    assert capsys.readouterr().out.split() == [name for name in GPU_ROWS if name.startswith("matmul.8192")]
    with pytest.raises(SystemExit, match="2"):
        program.main(["gpu", "nothing"])
    assert "no row is called" in capsys.readouterr().err


def test_the_table():
    result = {
        "dynograd": {
            "copy": {"seconds": 0.001, "moved": 2_000_000_000, "flops": 0},
            "add": {"seconds": 0.002, "moved": 2_000_000_000, "flops": 0},
            "matmul": {"seconds": 0.00002, "moved": 0, "flops": 4_000_000_000},
            "gpt": {"error": "Lost | it"},
        },
        "torch": {"copy": {"seconds": 0.002}, "add": {"seconds": 0.001}},
    }
    lines = gpu.table({"card": "a card"}, ["copy", "add", "matmul", "gpt"], result).splitlines()
    assert lines[2] == "| card | a card |"
    assert lines[6:] == [
        "| copy | 1.000 ms | 2.000 ms | 2.00 | 2000 GB/s (100% of copy) |",
        "| add | 2.000 ms | 1.000 ms | 0.50 | 1000 GB/s (50% of copy) |",
        "| matmul | 20.0 µs | - | - | 200.0 TFLOP/s |",
        "| gpt | failed: Lost / it | - | - | - |",
    ]
