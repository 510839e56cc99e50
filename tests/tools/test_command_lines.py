"""Every program answers a mistake on its command line in one line, with status 2; after Ctrl-C it ends with 130. None shows a traceback."""

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dynograd as dg
from dynograd.errors import CheckpointError
from dynograd.utils import programs

ROOT = Path(dg.__file__).parents[1]
EXAMPLES = sorted(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py"))
WITHOUT_OPTIONS = ["tools.make_support", "tools.make_ragged", "tools.make_autobatch_picture", "tools.need_gpu"]
MODULES = [
    "dynograd",
    "dynograd.convert",
    "dynograd.port",
    "dynograd.serve",
    "tools.run_array_api_suite",
    "tools.bootstrap",
    "tools.mutants",
    "tools.fuzz_serving",
    "tools.sbom",
    "tools.audit",
    *WITHOUT_OPTIONS,
]
MODULES += [
    "benchmarks",
    "benchmarks.autobatch_costs",
    "benchmarks.ragged_probes",
    "benchmarks.limits",
    "benchmarks.worker",
]
MODULES += ["benchmarks.serving", "benchmarks.fresh", "benchmarks.gpu.worker"]


def command(program, *arguments):
    return [sys.executable, *([program] if program.endswith(".py") else ["-m", program]), *map(str, arguments)]


def run(program, *arguments):
    return subprocess.run(command(program, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=100)


def assert_answered(done, *words):
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("usage:", " "))]
    assert len(lines) == (0 if done.stderr.startswith("usage: python -m benchmarks.fresh") else 1), done.stderr
    for word in words:
        assert str(word) in done.stderr


@pytest.mark.parametrize("program", ["examples/sentiment.py", *MODULES])
def test_options_that_are_not_there(program):
    assert_answered(run(program, "--no-such-option"))


FILES = ["", str(ROOT), f"{__file__}/x"]
NUMBERS = ["", "x", "nan", "-inf", "1e400"]
WRONG = {
    "--checkpoint": FILES,
    "--picture": FILES,
    "--plot": FILES,
    "--prompt": [],
    "--sentence": [],
    "--device": ["x", ""],
}
OUT_OF_RANGE = {"--steps": "0", "--epochs": "-1", "--batch-size": "0", "--learning-rate": "0", "--seed": str(2**64)}
OUT_OF_RANGE |= {"--dropout": "1.5", "--temperature": "0", "--workers": "-1", "--characters": "-1", "--penalty": "-0.1"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_option_of_an_example(example, monkeypatch, capsys):
    """In the process of the test: a process for each mistake would take minutes, and `argparse` is the same for all."""
    module = importlib.import_module(example[:-3].replace("/", "."))
    parse = module.main if example == "examples/tree_lstm.py" else module.parse
    monkeypatch.setattr(sys, "argv", [example])

    def answered(*arguments):
        with pytest.raises(SystemExit) as ended:
            parse(list(arguments))
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    status, text, _ = answered("--help")
    options = set(re.findall(r"\[(--[a-z-]+) ", text))
    assert status == 0 and options
    assert answered("--no-such-option")[0] == 2
    for option in options:
        for value in [*WRONG.get(option, NUMBERS), *([OUT_OF_RANGE[option]] if option in OUT_OF_RANGE else [])]:
            status, _, errors = answered(f"{option}={value}")
            assert status == 2 and f"error: argument {option}" in errors.splitlines()[-1], (option, value)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Checkpoints with something wrong, by what that is."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "text.safetensors").write_text("not a checkpoint")
    (folder / "empty.safetensors").write_bytes(b"")
    (folder / "broken.pt").write_bytes(b"PK\x03\x04nothing")
    dg.save({"model": {}, "words": 3}, folder / "other.safetensors")
    dg.save([1, 2], folder / "list.safetensors")
    dg.save({"model": {}, "words": ["a"], "config": {"size": 4, "hidden": 3}}, folder / "lacking.safetensors")
    return folder


MISTAKES = [
    ("examples/sentiment.py predict", ["required"]),
    ("examples/sentiment.py predict words --checkpoint {}/absent.safetensors", ["absent.safetensors", "No such file"]),
    ("examples/sentiment.py predict words --checkpoint {}", ["Pass the path of a file"]),
    ("examples/sentiment.py predict words --checkpoint {}/text.safetensors", ["text.safetensors"]),
    ("examples/sentiment.py predict words --checkpoint {}/empty.safetensors", ["empty.safetensors"]),
    ("examples/sentiment.py predict words --checkpoint {}/broken.pt", ["broken.pt", "truncated or damaged"]),
    ("examples/sentiment.py predict words --checkpoint {}/other.safetensors", ["was not written by sentiment.py"]),
    ("examples/sentiment.py predict words --checkpoint {}/list.safetensors", ["was not written by sentiment.py"]),
    ("examples/sentiment.py predict words --checkpoint {}/lacking.safetensors", ["was not written by sentiment.py"]),
    ("examples/char_lm.py --prompt=", ["expected a prompt of characters"]),
    ("examples/char_lm.py --prompt=Ω", ["expected a prompt of characters"]),
    ("examples/char_lm.py --device=nowhere", ["--device", "nowhere"]),
    ("examples/char_lm.py --length=100000", ["length", "100000"]),
    ("examples/transformer_lm.py --prompt=", ["expected a prompt of characters"]),
    ("examples/transformer_lm.py --size=130", ["a multiple of 4, got 130"]),
    ("examples/transformer_lm.py --length=100000", ["length", "100000"]),
    ("dynograd inof", ["Did you mean info?"]),
    ("dynograd convert {}/absent.pt {}/b.safetensors", ["absent.pt", "No such file"]),
    ("dynograd warmup mpl", ["Did you mean mlp?"]),
    ("dynograd cache", ["required"]),
    ("dynograd.convert", ["required"]),
    ("dynograd.convert {}/absent.pt {}/b.safetensors", ["absent.pt", "No such file"]),
    ("dynograd.convert {}/broken.pt {}/b.safetensors", ["truncated or damaged"]),
    ("dynograd.convert {}/other.safetensors {}/absent/b.safetensors", ["absent"]),
    ("dynograd.port {}/absent.py", ["absent.py"]),
    ("dynograd.port {}/text.safetensors", ["text.safetensors"]),
    ("dynograd.port {}/broken.pt", ["broken.pt"]),
    ("benchmarks nothing", ["no row is called 'nothing'"]),
    ("benchmarks --rounds=0 --list", ["at least 1, got 0"]),
    ("benchmarks --seconds=nan --list", ["above 0, got 'nan'"]),
    ("benchmarks --json={} --list", ["a folder"]),
    ("benchmarks gpu nothing", ["no row is called"]),
    ("benchmarks.autobatch_costs --rounds=x", ["a whole number of at least 1, got 'x'"]),
    ("benchmarks.ragged_probes numpy", ["numpy"]),
    ("benchmarks.limits 0", ["threads: expected at least 1, got 0"]),
    ("benchmarks.worker dynograd 2 slowly", ["slowly"]),
    ("benchmarks.fresh first dynograd nothing 1 1", ["nothing"]),
    ("benchmarks.gpu.worker dynograd nothing", ["no row is called 'nothing'"]),
    ("tools.run_array_api_suite --examples=0", ["at least 1, got 0"]),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_mistakes(line, words, files):
    program, *arguments = line.split(" ")
    assert_answered(run(program, *[argument.replace("{}", str(files)) for argument in arguments]), *words)


def test_text_without_words(files):
    assert_answered(run("examples/sentiment.py", "predict", " "), "sentiment")


@pytest.mark.parametrize(
    "program", ["examples/mnist.py", "examples/sentiment.py --fresh", "benchmarks.autobatch_costs"]
)
def test_ctrl_c(program, tmp_path):
    # where SIGINT is ignored (jobs in the background), processes that are started ignore it too
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    words = program.split(" ")
    if program.startswith("examples"):
        words += ["--checkpoint", tmp_path / "weights.safetensors"]
    running = subprocess.Popen(
        command(*words), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    begun = running.stdout.read(1)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=100)
    signal.signal(signal.SIGINT, before)
    assert begun and running.returncode == 130
    assert "Traceback" not in errors and errors.rstrip().endswith(".py: interrupted"), errors


# --- the parts ----------------------------------------------------------------------------------------------------------------


class Own(RuntimeError):
    pass


ENDS = [
    (lambda: None, 0, ""),
    (lambda: 3, 3, ""),
    (lambda: {"accuracy": 1}, 0, ""),
    (lambda: failing(programs.UsageError("two\n  lines")), 2, "x: error: two lines\n"),
    (lambda: failing(CheckpointError("damaged")), 2, "x: error: damaged\n"),
    (lambda: failing(FileNotFoundError(2, "No such file", "a.pt")), 2, "x: error: 'a.pt': No such file\n"),
    (lambda: failing(Own("own")), 2, "x: error: own\n"),
    (lambda: failing(KeyboardInterrupt()), 130, "x: interrupted\n"),
]


def failing(error):
    raise error


@pytest.mark.parametrize(("program", "status", "said"), ENDS)
def test_ends_of_programs(program, status, said, capsys):
    assert programs.run(program, "x", (Own,)) == status
    assert capsys.readouterr().err == said


def test_errors_of_the_program_itself_keep_their_traceback():
    for error in (ValueError("own"), TypeError("own"), KeyError("own")):
        with pytest.raises(type(error)):
            programs.run(lambda error=error: failing(error))


def test_a_reader_that_goes_away():
    line = "import sys; from dynograd.utils import programs; sys.exit(programs.run(lambda: [print('x' * 9) for _ in range(99999)]))"
    done = subprocess.run(
        f'{sys.executable} -c "{line}" | head -n 1; exit ${{PIPESTATUS[0]}}',
        shell=True, executable="/bin/bash", cwd=ROOT, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (1, "xxxxxxxxx\n", "")


def test_checkpoints_of_other_programs():
    for error in (KeyError("words"), TypeError("a list"), RuntimeError("sizes"), AttributeError("x")):
        with (
            pytest.raises(programs.UsageError, match=r"'a.pt' was not written by b.py \(.*Error: "),
            programs.checkpoint_of("b.py", "a.pt"),
        ):
            raise error
    with pytest.raises(CheckpointError, match="damaged"), programs.checkpoint_of("b.py", "a.pt"):
        raise CheckpointError("damaged")
