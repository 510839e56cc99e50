"""`torch` meaning dynograd: by `import dynograd.as_torch`, by `python -m dynograd SCRIPT`, by the distribution, and in what these start.

The door changes a process for good, so each program here is a process of its own.
"""

import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import dynograd
from dynograd.tools import torch_shim

ROOT = Path(__file__).parents[2]
SITE = ROOT / "dynograd" / "as_torch" / "site"


def python(*words, cwd=ROOT, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env={**kept, "PYTHONPATH": str(ROOT), **environment}, cwd=cwd, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


def assert_runs(done, *lines):
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(lines)


# --- what is true behind the door: each row is a program, which prints True ------------------------------------------------------

TRUE = {
    "the version": "torch.__version__ == dynograd.__version__ and torch.__version__.startswith('2.13.0+dynograd')",
    "the name": "torch.__name__ == 'torch' and torch.__spec__.name == 'torch' and torch.__package__ == 'torch'",
    "the file": "os.path.exists(torch.__file__) and os.path.isdir(torch.__path__[0])",
    "one module under two names": "torch.nn is dynograd.nn and sys.modules['torch.nn'] is sys.modules['dynograd.nn']",
    "a module below": "importlib.import_module('torch.nn.functional') is dynograd.nn.functional",
    "a class": "torch.nn.Linear is dynograd.nn.Linear and torch.Tensor is dynograd.Tensor",
    "the spec of a module stays its own": "importlib.import_module('torch.optim').__spec__.name == 'dynograd.optim'",
    "find_spec": "importlib.util.find_spec('torch') is not None and importlib.util.find_spec('torch.nn') is not None",
    "find_spec of what is not there": "importlib.util.find_spec('torchvision_of_mine') is None",
    "the distribution": "importlib.metadata.version('torch') == torch.__version__",
    "reload": "importlib.reload(torch) is torch and torch.relu is dynograd.relu",
    "reload forgets what was set": "setattr(torch, 'mine', 1) or not hasattr(importlib.reload(torch), 'mine')",
    "what is set stays on torch": "setattr(torch, 'mine', 1) or (torch.mine == 1 and not hasattr(dynograd, 'mine'))",
    "what is replaced below is replaced": "setattr(torch.nn.init, 'ones_', 1) or dynograd.nn.init.ones_ == 1",
    "what lies below is in sys.modules": "torch.nn and sys.modules['torch.nn.init'] is dynograd.nn.init and 'torch.nn.functional' in sys.modules",
    "dir": "{'nn', 'relu', 'Tensor', 'save'} <= set(dir(torch))",
    "import *": "exec('from torch import *', space := {}) or space['relu'] is dynograd.relu",
    "functorch": "importlib.import_module('functorch').vmap is dynograd.vmap",
    "from import": "exec('from torch.utils.data import DataLoader as D', space := {}) or space['D'] is dynograd.data.DataLoader",
    "pickles that name torch": "pickle.loads(b'ctorch.nn.modules.linear\\nLinear\\n.') is dynograd.nn.Linear",
    "pickles of tensors": "torch.equal(pickle.loads(pickle.dumps(torch.ones(2))), torch.ones(2))",
    "a module that nobody has imported": "torch.distributed.device_mesh.DeviceMesh.__name__ == 'DeviceMesh'",
    "hasattr": "hasattr(torch, 'relu') and not hasattr(torch, 'rleu') and not hasattr(torch.nn, 'Lineal')",
    "texts of dtypes and layouts": "f'{torch.float32} {torch.sparse_csr} {torch.channels_last}' == 'torch.float32 torch.sparse_csr torch.channels_last'",
    "texts of sizes and types": "f'{torch.Size([2])} {torch.ones(2).type()} {torch.LongTensor}' == 'torch.Size([2]) torch.FloatTensor torch.LongTensor'",
    "what is printed": "repr(torch.ones(1, dtype=torch.float64)) == 'tensor([1.], dtype=torch.float64)'",
    "a second time": "dynograd.as_torch.install() is None and sys.path.count(sys.path[1]) == 1",
    "importing it again": "importlib.reload(sys.modules['dynograd.as_torch']).module('torch') is torch",
}  # fmt: skip


def test_what_is_true():
    program = "import dynograd.as_torch, dynograd, torch, importlib.metadata, importlib.util, os, pickle, sys, torch.nn.init\n"
    for name, expression in TRUE.items():
        program += f"print({name!r}, bool({expression}))\n"
    assert_runs(python("-c", program), *[f"{name} True" for name in TRUE])


def test_modules_that_pytorch_has_imported_are_in_sys_modules():
    """Programs put functions of theirs there: transformers so that layers which are set back leave weights that it has loaded."""
    program = "import dynograd.as_torch, sys, torch; layer = torch.nn.Linear(1, 1)\n"
    program += (
        "print([name in sys.modules for name in ('torch.nn.init', 'torch.nn.functional', 'torch.nn.parameter')])\n"
    )
    program += "sys.modules['torch.nn.init'].uniform_ = lambda tensor, *limits: print('mine')\n"
    program += "layer.reset_parameters()"
    assert_runs(python("-c", program), "[True, True, True]", "mine")


def test_the_import_of_a_module_leaves_the_function_of_its_name():
    program = "import dynograd.as_torch, inspect, torch\n"
    program += "import torch.nn.utils.weight_norm as norm, torch.nn.utils.spectral_norm, torch.nn.parallel.replicate\n"
    program += "functions = norm, torch.nn.utils.spectral_norm, torch.nn.parallel.replicate\n"
    program += "print([inspect.isfunction(function) for function in functions])"
    assert_runs(python("-c", program), "[True, True, True]")


@pytest.mark.parametrize("name", ["run", "launch"])
def test_pytorchs_launcher_is_our_own(name):
    done = python("-m", "dynograd", "-m", f"torch.distributed.{name}", "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: python -m dynograd.run [-h] [-n"), done.stderr


WRONG = {
    "torch.no_such_name": "AttributeError: torch.no_such_name: dynograd is torch here, and neither it nor PyTorch 2.13.0 has",
    "torch.rnn_tanh": "AttributeError: torch.rnn_tanh: PyTorch 2.13.0 has it; dynograd, which is torch here, has not yet.",
    "torch.qscheme": "AttributeError: torch.qscheme: dynograd, which is torch here, refuses it: quantized tensors are not supported",
    "torch.nn.Lineal": "AttributeError: torch.nn.Lineal: dynograd is torch here",
    "from torch.nn import Lineal": "ImportError: cannot import name 'Lineal' from 'torch.nn': dynograd is torch here",
    "from torch import lineal": "ImportError: cannot import name 'lineal' from 'torch': dynograd is torch here",
    "import torch.no_such_module": "ModuleNotFoundError: No module named 'torch.no_such_module': dynograd is torch here",
    "import torch.nn.no_such_module": "ModuleNotFoundError: No module named 'torch.nn.no_such_module': dynograd",
}


def test_what_is_missing_says_why_and_is_reported():
    program = "import dynograd.as_torch, torch\n"
    for text in WRONG:
        program += f"try: exec({text!r})\nexcept Exception as error: print(f'{{type(error).__name__}}: {{error}}')\n"
    program += "for row in dynograd.as_torch.report().lacking: print(row.name, row.asked_by)\n"
    done = python("-c", program)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    for expected, line in zip(WRONG.values(), lines):
        assert line.startswith(expected)
    asked = {line.split()[0]: line.split()[1] for line in lines[len(WRONG) :]}
    names = "torch.no_such_name torch.rnn_tanh torch.qscheme torch.nn.Lineal torch.lineal torch.no_such_module torch.nn.no_such_module"
    assert asked == dict.fromkeys(names.split(), "<string>:1")


def test_pytorch_that_is_already_imported_is_refused(tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0'\n")
    done = python("-c", "import torch, dynograd.as_torch", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: dynograd.as_torch: PyTorch 2.13.0 is already imported (from ")
    assert "python -m dynograd SCRIPT" in last


def test_an_installed_pytorch_is_left_alone(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemError('this is PyTorch')\n")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    started = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch; print(torch.__version__)'], check=True)"
    assert_runs(
        python(
            "-m", "dynograd", "-c", f"import torch; print(torch.__version__, flush=True); {started}", PYTHONPATH=path
        ),
        dynograd.__version__,
        dynograd.__version__,
    )


# --- programs ------------------------------------------------------------------------------------------------------------------


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))


def test_a_script_is_run_as_python_would(tmp_path):
    write(
        tmp_path,
        helper="import torch\nONE = torch.ones(1)\n",
        script="""
            import pickle, sys, torch
            from helper import ONE
            class Mine(torch.nn.Module): pass
            print(__name__, __file__, sys.argv[1:], ONE.item(), type(pickle.loads(pickle.dumps(Mine()))) is Mine)
            sys.exit(7)
        """,
    )
    done = python("-m", "dynograd", "script.py", "--report", "x y", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == "__main__ script.py ['--report', 'x y'] 1.0 True\n"


ENDINGS = {
    "pass": (0, ""),
    "import sys; sys.exit()": (0, ""),
    "import sys; sys.exit('words')": (1, "words"),
    "raise ValueError('no')": (1, "ValueError: no"),
    "raise KeyboardInterrupt": (130, "KeyboardInterrupt"),
    "def f(:": (1, "SyntaxError: "),
}


@pytest.mark.parametrize("text", ENDINGS)
def test_how_a_program_ends(text):
    status, words = ENDINGS[text]
    done = python("-m", "dynograd", "-c", text)
    assert done.returncode == status and (done.stderr.splitlines() or [""])[-1].startswith(words)
    assert "running.py" not in done.stderr


def test_a_module_is_run(tmp_path):
    write(tmp_path, mine="import sys, torch\nprint(__name__, sys.argv[1:], torch.__name__)\n")
    assert_runs(python("-m", "dynograd", "-m", "mine", "-c", "1", cwd=tmp_path), "__main__ ['-c', '1'] torch")


def test_a_folder_is_run(tmp_path):
    write(tmp_path, __main__="import torch\nprint(torch.__name__)\n")
    assert_runs(python("-m", "dynograd", tmp_path), "torch")


def test_the_report_at_the_end():
    done = python("-m", "dynograd", "--report", "-c", "import torch; torch.ones(1); hasattr(torch, 'no_such_name')")
    assert done.returncode == 0 and "torch.no_such_name  asked by <string>:1" in done.stderr
    assert done.stderr.startswith("1 names of torch's top level and modules were used, 1 were asked for in vain.\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no_such_file.py"], "there is no file 'no_such_file.py'. `python -m dynograd [--report] SCRIPT ...`"),
        (["-m"], "expected a program, got '-m'."),
        (["-c"], "expected a program, got '-c'."),
        (["--report"], "expected a program, got 'none'."),
    ],
)
def test_mistakes(words, message):
    done = python("-m", "dynograd", *words)
    assert (
        done.returncode == 2 and done.stderr.startswith(f"dynograd: error: {message}") and done.stderr.count("\n") == 1
    )


def test_processes_that_are_started(tmp_path):
    write(
        tmp_path,
        script="""
            import subprocess, sys, torch
            from torch.utils.data import DataLoader, Dataset
            class Numbers(Dataset):
                def __len__(self): return 4
                def __getitem__(self, index):
                    import torch
                    return torch.full((2,), float(index))
            if __name__ == "__main__":
                print(sum(batch.sum().item() for batch in DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context="spawn")))
                sys.stdout.flush()
                subprocess.run([sys.executable, "-c", "import torch, importlib.metadata as m; print(m.version('torch'))"])
        """,
    )
    assert_runs(python("-m", "dynograd", "script.py", cwd=tmp_path), "12.0", dynograd.__version__)


def test_pytest(tmp_path):
    write(tmp_path, test_mine="import torch\ndef test(): assert 'dynograd' in torch.__version__\n")
    done = python(
        "-m", "pytest", "-q", "-p", "dynograd.as_torch", "-p", "no:cacheprovider", "-n", "1", tmp_path, cwd=tmp_path
    )
    assert done.returncode == 0 and "1 passed" in done.stdout


# --- the distribution ------------------------------------------------------------------------------------------------------------


def test_the_wheel(tmp_path):
    path = torch_shim.make_wheel(tmp_path / "a")
    assert path.read_bytes() == torch_shim.make_wheel(tmp_path / "b").read_bytes()
    assert path.name == f"torch-{dynograd.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path / "c")
    program = "import torch, torch.nn, functorch, importlib.metadata as m\n"
    program += "print(m.version('torch') == torch.__version__, functorch.vmap is torch.vmap, torch.nn.__name__)"
    done = python("-c", program, PYTHONPATH=f"{tmp_path / 'c'}{os.pathsep}{ROOT}")
    assert_runs(done, "True True dynograd.nn")


def test_the_version_of_the_distribution_is_the_librarys():
    (metadata,) = SITE.glob("*.dist-info/METADATA")
    assert f"Version: {dynograd.__version__}\n" in metadata.read_text()
    assert metadata.parent.name == f"torch-{dynograd.__version__}.dist-info"


def test_the_wheel_does_not_replace_pytorch(tmp_path, monkeypatch, capsys):
    (tmp_path / "torch-2.13.0.dist-info").mkdir()
    (tmp_path / "torch-2.13.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert torch_shim.main([str(tmp_path), "--install"]) == 2
    assert "PyTorch 2.13.0 is installed in" in capsys.readouterr().err
