"""Processes started by `python -m dynograd.run` over MPI: what they get, how many threads they have, and what is said of jobs that end badly."""

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dynograd.distributed.jobs import post_mortem
from dynograd.tools.run import path_of_mpiexec
from tests.support import drills

ROOT = Path(__file__).parents[2]
WATCH = 10  # seconds that ranks wait for one that hangs
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("mpi4py") is None or path_of_mpiexec() is None,
        reason="there is no MPI: the extra mpi is not installed",
    ),
]

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import dynograd
from dynograd import distributed

distributed.init_process_group()
rank, how = distributed.get_rank(), sys.argv[1]
x = dynograd.ones(1000)
for step in range(6):
    distributed.starting.note_step(step)
    if step == 2:
        Path(sys.argv[0]).with_name(f"names-{rank}").write_text("\\n".join(distributed.board.shared_files()))
    if step == 3 and rank == 1:
        if how == "raise":
            raise ValueError("bad sample")
        if how == "exit":
            sys.exit(3)
        if how == "end":
            break
        if how == "hang":
            time.sleep(600)
        if how in ("SIGKILL", "SIGSTOP", "SIGSEGV"):
            os.kill(os.getpid(), getattr(signal, how))
        if how == "call":
            distributed.barrier()
        if how == "shape":
            x = dynograd.ones(1001)
        if how == "dtype":
            x = x.int()
    distributed.all_reduce(x)
print("done", x[0].item(), os.environ["RANK"], os.environ["LOCAL_RANK"], dynograd.get_num_threads())
"""


def run(*arguments, ranks=2, watch=WATCH):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | {
        "PYTHONPATH": str(ROOT)
    }
    command = [sys.executable, "-m", "dynograd.run", "-n", str(ranks), "--watch", str(watch), *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_over_mpi(ranks):
    done = run(ROOT / "tests/distributed/mpi_program.py", ranks=ranks, watch=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"\d+ cases\n", done.stdout)


@pytest.mark.parametrize("ranks", [2, 3])
def test_emulated_gpus_over_mpi(ranks, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CUDA", f"emulated:{ranks}")
    done = run(ROOT / "tests/distributed/mpi_gpu_program.py", ranks=ranks, watch=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "done\n"


@pytest.mark.parametrize("ranks, where", [(2, "here"), (4, "remote")])
def test_divided_models_over_mpi(ranks, where):
    done = run(ROOT / "tests/distributed/mpi_training.py", where, ranks=ranks, watch=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "done\n"


def test_a_process_of_four_keeps_a_quarter():
    def layers(what, ranks):
        done = run(ROOT / "tests/distributed/mpi_training.py", "memory", what, ranks=ranks, watch=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return float(done.stdout)

    whole = layers("whole", 2)
    assert 44 < whole < 60  # parameters, gradients and two states of 12 layers
    most = whole / 4 + 5  # and memory for layers that become whole
    assert layers("part", 4) < most or layers("part", 4) < most  # one that compiles has more


def test_ranks_know_who_they_are_and_their_lines_are_marked(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = run(tmp_path / "train.py", "well", watch=60)
    assert done.returncode == 0, done.stderr
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert sorted(done.stdout.splitlines()) == [f"[rank 1] done 64.0 1 1 {threads}", f"done 64.0 0 0 {threads}"]


# what rank 1 does in step 3: what the launcher says of it
ENDS = {
    "raise": "ended with ValueError: bad sample in step 3",
    "exit": "ended with SystemExit: 3 in step 3",
    "end": "has ended in step 3",
    "hang": f"has not come for {WATCH} s in step 3",
    "SIGSTOP": f"has not come for {WATCH} s in step 3",
    "SIGKILL": "was killed by SIGKILL in step 3",
    "SIGSEGV": "was killed by SIGSEGV in step 3",
    "call": "called another collective than the others in step 3, in barrier",
    "shape": "called another collective than the others in step 3",
    "dtype": "called another collective than the others in step 3",
}


@pytest.mark.parametrize("how", ENDS)
def test_who_ended_how_is_said(tmp_path, how):
    (tmp_path / "train.py").write_text(PROGRAM)
    begun = time.monotonic()
    done = run(tmp_path / "train.py", how)
    assert done.returncode != 0
    assert time.monotonic() - begun < 60
    told = done.stderr[done.stderr.index("dynograd.run: the job has ended with exit status") :]
    assert re.search(rf"rank 1 \(pid \d+ on \S+\) {re.escape(ENDS[how])}", told), done.stderr
    assert "all_reduce of float32(1000,), SUM at" in told
    pids = [int(pid) for pid in re.findall(r"\(pid (\d+) on", told)]
    assert len(pids) == 2 and not any([Path(f"/proc/{pid}").exists() for pid in pids])
    names = [name for file in tmp_path.glob("names-*") for name in file.read_text().splitlines()]
    assert not any([Path(name).exists() for name in names])


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("os._exit(9)", "ended with exit status 9"),
        ("os._exit(139)", "ended with exit status 139"),
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("resource.setrlimit(resource.RLIMIT_CORE, (most, most)); os.abort()", "was killed by SIGABRT"),
    ],
)
def test_exits_are_no_signals(tmp_path, last, words, ranks):
    (tmp_path / "train.py").write_text(
        "import os, resource\nimport dynograd\nfrom dynograd import distributed\ndistributed.init_process_group()\n"
        f"os.chdir({str(tmp_path)!r})  # where a core may be kept\nmost = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        f"if distributed.get_rank() == distributed.get_world_size() - 1:\n    {last}\n"
        "distributed.all_reduce(dynograd.ones(2))\n"
    )
    done = run(tmp_path / "train.py", ranks=ranks)
    who = "The process" if ranks == 1 else r"rank 1 \(pid \d+ on \S+\)"
    assert done.returncode and re.search(f"  {who} {words}[:,]", done.stderr), done.stderr


def test_a_job_is_started_again(tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, sys\nfrom dynograd import distributed\ndistributed.init_process_group()\n"
        "sys.exit(0 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '2' else 'not yet')\n"
    )
    done = run("--restarts", 3, tmp_path / "train.py", watch=60)
    assert done.returncode == 0 and "starts again (2 of 3 times)" in done.stderr and "(3 of 3" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "none", "train.py"], "expected -n to be a number of processes from 1, or auto; got 'none'"),
        (["--nnodes", "2", "train.py"], "--nnodes 2 needs their names: --hosts a,b"),
        (["--nnodes", "3", "--hosts", "a,b", "train.py"], "--nnodes 3, but --hosts names 2: a,b"),
    ],
)
def test_the_launcher_says_what_it_does_not_understand(arguments, words):
    from dynograd import run

    with pytest.raises(SystemExit, match=re.escape(words)):
        run.main(arguments)


def test_programs_that_spawn_are_started_by_the_launcher(tmp_path):
    (tmp_path / "train.py").write_text(
        "import dynograd as torch\nfrom dynograd import distributed\n"
        "def worker(rank, size):\n"
        "    distributed.init_process_group('gloo', rank=rank, world_size=size)\n"
        "    x = torch.ones(1) + rank\n    distributed.all_reduce(x)\n    print('sum', x.item())\n"
        "if __name__ == '__main__':\n    torch.multiprocessing.spawn(worker, args=(2,), nprocs=2)\n"
    )
    done = run("--standalone", "--nnodes=1", "--node_rank=0", "--master-port", 29500, tmp_path / "train.py", watch=60)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[rank 1] sum 3.0", "sum 3.0"]
    alone = subprocess.run(
        [sys.executable, tmp_path / "train.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "MPI started 1. Start the program with `python -m dynograd.run -n 2" in alone.stderr


def test_one_process_in_a_job_of_slurm_is_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    (tmp_path / "train.py").write_text(
        "from dynograd import distributed\ndistributed.init_process_group()\nprint(distributed.get_world_size())\n"
    )
    assert run(tmp_path / "train.py", ranks=1, watch=60).stdout == "1\n"


def test_processes_that_mpi_starts_itself(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [path_of_mpiexec(), "-n", "2", sys.executable, "-m", "mpi4py", str(tmp_path / "train.py")]
    for how, words in {"raise": "ended with ValueError: bad sample", "hang": f"has not come for {WATCH} s"}.items():
        board = tmp_path / how
        board.touch()
        environment = os.environ | {"PYTHONPATH": str(ROOT), "DYNOGRAD_BOARD": str(board), "DYNOGRAD_WATCH": str(WATCH)}
        done = subprocess.run([*command, how], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode and "rank 1" in done.stderr, done.stderr
        if how == "hang":  # after an error, MPI may end the others before they can say anything
            assert re.search(rf"RankError: all_reduce .*: rank 1 \(pid \d+\) {words}", done.stderr), done.stderr
        report = post_mortem.report(board, 2, 1, None, "here")  # deletes what MPI has left in shared memory
        assert re.search(rf"rank 1 \(pid \d+.*\) {words}", report), report


# arguments of an example, the step of rank 1 that is its last one, and what its last lines say
EXAMPLES = {
    "sentiment": (
        "--steps 24 --batch-size 16 --workers 0 --save-every 5",
        13,
        r"test accuracy .* loss [\d.]+|weights \w+",
    ),
    "transformer_lm": (
        "--steps 12 --size 32 --layers 1 --characters 20",
        10,
        r"test [\d.]+ bits.* at step \d+|\n\nROMEO.*",
    ),
    "tree_lstm": ("--epochs 1 --trees 40 --width 16 --compared 0", 1, r"dev: .*|test: .*"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_goes_on_when_a_rank_is_killed(name, tmp_path):
    options, last, figures = EXAMPLES[name]
    results = []
    for place, step in (("undisturbed", 0), ("killed", last)):
        own = ["--checkpoint", tmp_path / place] if name == "sentiment" else []
        example = ROOT / "examples" / f"{name}.py"
        done = run(
            *("--restarts", 3, ROOT / "tests/distributed/killed_example.py", step, example, *options.split(), *own),
            watch=60,
        )
        assert done.returncode == 0, done.stderr
        assert ("rank 1 " in done.stderr and "was killed by SIGKILL" in done.stderr) == (step > 0), done.stderr
        assert done.stderr.count("starts again (1 of 3 times)") == (step > 0)
        results.append(re.findall(figures, done.stdout))
    assert len(results[0]) == 2 and results[0] == results[1]
    if name == "sentiment":
        assert "continuing at step 10, in epoch 1" in done.stdout


@pytest.mark.parametrize("how", drills.WAYS)
def test_a_drill(how, undisturbed):
    drill = drills.Drill(how, list(drills.WAYS).index(how) % 2, 0.3, watch=WATCH)
    assert not drill.problems(undisturbed, limit=60), drill.written


@pytest.fixture(scope="module")
def undisturbed():
    return drills.undisturbed()


@pytest.mark.parametrize("ranks", [1, 4])
def test_any_number_of_processes_comes_to_the_same_bits(ranks, undisturbed, tmp_path):
    done = run("-m", "tests.support.drills", "train", tmp_path, ranks=ranks, watch=60)
    assert re.search(r"^weights (.*)$", done.stdout, re.M)[1] == undisturbed, done.stderr
