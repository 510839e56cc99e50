"""With DYNOGRAD_CUDA_SYNC=1, in which these cases run: faults of ops are told at the op, with kernel and line. The last case is without."""

import pytest

import dynograd as dg
from dynograd import cuda
from dynograd.cuda import driver
from dynograd.errors import DeviceError, KernelCompileError

pytest.importorskip("triton", reason="kernels are compiled by Triton (pip install dynograd[gpu])")

OPS = [
    ("elementwise", lambda x: x.exp()),
    ("in place", lambda x: x.mul_(2)),
    ("reduction", lambda x: x.sum()),
    ("product", lambda x: x @ x),
    ("rows", lambda x: x.softmax(1)),
]


@pytest.mark.parametrize("what, op", OPS, ids=[row[0] for row in OPS])
def test_an_illegal_access_names_kernel_and_line(lib, what, op):
    lib.standin_eager(1)
    x = dg.ones(4, 4, device="cuda")
    op(x), op(x)  # the second launch takes the short way
    lib.standin_fail(b"cuStreamSynchronize", 1, 700)
    with pytest.raises(cuda.CudaError) as error:
        op(x)
    text = str(error.value)
    line = op.__code__.co_firstlineno
    assert text.startswith("kernel '") and f"launched by {__file__}:{line}, in <lambda>" in text, text
    assert "ILLEGAL_ADDRESS (700)" in text and "asynchronous" not in text and "CPU tensors still work" in text


def test_the_backward_of_an_op_names_its_kernel_too(lib):
    lib.standin_eager(1)
    x = dg.ones(4, 4, device="cuda", requires_grad=True)
    loss = x.exp().sum()
    loss.backward(retain_graph=True)
    lib.standin_fail(b"cuStreamSynchronize", 1, 716)
    with pytest.raises(
        cuda.CudaError, match=r"kernel '.*', launched by .*cases_synchronous.py:\d+.*MISALIGNED_ADDRESS"
    ):
        loss.backward()


def test_cpu_tensors_work_after_a_fault(lib, kernels):
    with pytest.raises(cuda.CudaError, match="ILLEGAL_ADDRESS"):
        kernels.launch("trap")
    with pytest.raises(cuda.CudaError, match="ILLEGAL_ADDRESS.*restart it"):
        dg.ones(3, device="cuda") + 1
    assert (dg.ones(3) + 1).sum().item() == 6


def test_a_tensor_that_does_not_fit_leaves_the_process_usable(monkeypatch):
    monkeypatch.setenv("STANDIN_MEMORY", str(64 << 20))
    with pytest.raises(cuda.OutOfMemoryError, match=r"tried to allocate 400.00 MiB.*of 64.00 MiB are free"):
        dg.empty(100 << 20, device="cuda")
    assert dg.empty(1000, device="cuda").shape == (1000,)


@pytest.mark.parametrize("make", [lambda: dg.zeros(2, device="cuda:7"), lambda: dg.zeros(2).to("cuda:7")])
def test_a_device_that_is_not_there(make):
    with pytest.raises(DeviceError, match=r"'cuda:7' was asked for, but cuda:0 to cuda:1 exist"):
        make()


def test_a_kernel_that_does_not_compile_is_named_and_the_op_runs_afterwards(monkeypatch, lib):
    import triton

    from dynograd.kernels.build import kernel_cache

    lib.standin_eager(1)
    x = dg.ones(4, 4, 4, device="cuda")

    def refused(*_, **__):
        raise RuntimeError("ptxas fatal: no such instruction")

    with monkeypatch.context() as patched:
        patched.setattr(triton, "compile", refused)
        patched.setattr(kernel_cache, "read", lambda name: None)
        with pytest.raises(
            KernelCompileError, match=r"(?s)cosh.*fp32.*does not compile for sm_\d+.*no such instruction"
        ):
            x.cosh()
    assert x.cosh().shape == x.shape


def test_without_a_place_for_the_cache_kernels_run_all_the_same(monkeypatch, lib, tmp_path):
    lib.standin_eager(1)
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path / "file" / "cache"))
    x = dg.ones(5, 3, device="cuda")
    with pytest.warns(UserWarning, match="the folder for compiled kernels, .* cannot be made"):
        assert x.sinh().shape == (5, 3)


def test_without_the_variable_the_fault_is_told_when_a_value_is_read(lib):
    lib.standin_eager(1)
    x = dg.ones(4, 4, device="cuda")
    used = driver.get("test")
    used.synchronous = False
    try:
        y = x.exp()
        lib.standin_fail(b"cuStreamSynchronize", 1, 700)
        with pytest.raises(
            cuda.CudaError, match=r"earlier, asynchronous call; the kernel launched last was 'exp.*CUDA_SYNC=1"
        ):
            y.tolist()
    finally:
        used.synchronous = True
