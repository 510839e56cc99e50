"""Elementwise arithmetic from 1,000 to 16M elements, forward; two small chains, forward and backward."""

from __future__ import annotations

from benchmarks.kernel import Kernel, draw, kernel

SIZES = [(1000,), (65536,), (2**20,), (2**24,)]
TABLE = (4096, 1024)
SMALL = (100,)


@kernel("add", *SIZES, small=SMALL, forms="forward")
def add(torch, size):
    return Kernel(torch.add, draw(torch, (size,), (size,)))


@kernel("add_out", *SIZES, small=SMALL, forms="forward")
def add_out(torch, size):
    """Into a tensor that is there already."""
    return Kernel(lambda a, b, c: torch.add(a, b, out=c), draw(torch, (size,), (size,), (size,)))


@kernel("exp_out", *SIZES, small=SMALL, forms="forward")
def exp_out(torch, size):
    return Kernel(lambda a, b: torch.exp(a, out=b), draw(torch, (size,), (size,)))


@kernel("addcmul", *SIZES, small=SMALL, forms="forward")
def addcmul(torch, size):
    """c + a * b in one op."""
    return Kernel(torch.addcmul, draw(torch, (size,), (size,), (size,)))


@kernel("mul_add", *SIZES, small=SMALL, forms="forward")
def mul_add(torch, size):
    """a * b + c with operators, two ops."""
    return Kernel(lambda a, b, c: a * b + c, draw(torch, (size,), (size,), (size,)))


@kernel("exp", *SIZES, small=SMALL, forms="forward")
def exp(torch, size):
    return Kernel(torch.exp, draw(torch, (size,)))


@kernel("tanh", *SIZES, small=SMALL, forms="forward")
def tanh(torch, size):
    return Kernel(torch.tanh, draw(torch, (size,)))


@kernel("gelu", *SIZES, small=SMALL, forms="forward")
def gelu(torch, size):
    return Kernel(torch.nn.functional.gelu, draw(torch, (size,)))


@kernel("bias_gelu", TABLE, small=(4, 5))
def bias_gelu(torch, rows, columns):
    gelu = torch.nn.functional.gelu
    return Kernel(lambda x, b: gelu(x + b), draw(torch, (rows, columns), (columns,)))


@kernel("bias_gelu_fused", TABLE, (16384, 1024), small=(4, 5))
def bias_gelu_fused(torch, rows, columns):
    """By the one function where the library has it; PyTorch has not, eagerly."""
    gelu = torch.nn.functional.gelu
    fused = getattr(torch.nn.functional, "bias_gelu", lambda x, b: gelu(x + b))
    return Kernel(fused, draw(torch, (rows, columns), (columns,)))


@kernel("dropout_add_fused", TABLE, (16384, 1024), small=(4, 5))
def dropout_add_fused(torch, rows, columns):
    """residual + dropout(x, 0.1) by the one function where the library has it."""
    dropout = torch.nn.functional.dropout
    fused = getattr(
        torch.nn.functional, "dropout_add", lambda x, residual, p, training: residual + dropout(x, p, training)
    )
    x, residual = draw(torch, (rows, columns), (rows, columns))
    size = 4 * rows * columns
    return Kernel(lambda x, residual: fused(x, residual, 0.1, True), (x, residual), backward_moved=6 * size + size // 4)


@kernel("swiglu_fused", TABLE, small=(4, 5))
def swiglu_fused(torch, rows, columns):
    """silu(gate) * x by the one function where the library has it."""
    silu = torch.nn.functional.silu
    fused = getattr(torch.nn.functional, "swiglu", lambda gate, x: silu(gate) * x)
    return Kernel(fused, draw(torch, (rows, columns), (rows, columns)))


@kernel("dropout_add", TABLE, small=(4, 5))
def dropout_add(torch, rows, columns):
    """residual + dropout(x, 0.1). The libraries draw different masks; with so many elements the fingerprints agree all the same."""
    dropout = torch.nn.functional.dropout
    x, residual = draw(torch, (rows, columns), (rows, columns))
    size = 4 * rows * columns
    return Kernel(
        lambda x, residual: residual + dropout(x, 0.1, True), (x, residual), backward_moved=6 * size + size // 4
    )


@kernel("transpose", (1024, 1024), (4096, 4096), small=(4, 5), forms="forward")
def transpose(torch, rows, columns):
    """A contiguous copy of the transpose."""
    return Kernel(lambda x: x.t().contiguous(), draw(torch, (rows, columns)))
