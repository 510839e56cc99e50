"""What a kernel's row is: a function of tensors, timed alone or with its backward, and what it must move and compute at least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.workload import Workload, compiled, fingerprint, generator, normal, row

__all__ = ["Kernel", "draw", "kernel"]

NAMES = {2**20: "1M", 2**24: "16M"}


@dataclass(frozen=True)
class Kernel:
    """`function(*inputs)` returns a tensor or several; the gradients of `leaves` are computed where backward is timed."""

    function: Callable
    inputs: tuple
    leaves: tuple | None = None
    """By default all inputs that may have a gradient. Layers add their parameters."""
    flops: int = 0
    """Of the forward; each input and weight that gets a gradient adds as many (see `backward_flops`)."""
    moved: int | None = None
    """Bytes the forward must move, where it is not every input and every result once."""
    backward_moved: int | None = None
    """The same for forward and backward together, where it is not: inputs twice, result and its gradient once, gradients once."""
    backward_flops: int | None = None
    """Of forward and backward together, where they are not three times the forward's."""
    weights: tuple = field(default=())
    """Tensors that are read too, but are no inputs."""


def kernel(name: str, *sizes: tuple[int, ...], small: tuple[int, ...], forms: str = "both"):
    """Registers `prepare(torch, *size)`, which returns a Kernel, at each size: `name.64x100`, and with backward `name.64x100.backward`.

    `forms` is "forward", "backward" or "both"; the tests run `small`.
    """

    def register(prepare):
        for size in sizes:
            label = f"{name}.{'x'.join(NAMES.get(part, str(part)) for part in size)}"
            for form, suffix, time in (("forward", "", forward), ("backward", ".backward", with_backward)):
                if forms in (form, "both"):
                    row(label + suffix, group="kernels", small=builder(prepare, time, small))(
                        builder(prepare, time, size)
                    )
        return prepare

    return register


def builder(prepare, time, size):
    return lambda torch: time(torch, prepare(torch, *size))


def forward(torch, kernel: Kernel) -> Workload:
    """The function without gradients."""
    function = compiled(kernel.function)

    def step():
        with torch.no_grad():
            return function(*kernel.inputs)

    results = tensors_in(step())
    moved = bytes_of(*kernel.inputs, *kernel.weights, *results) if kernel.moved is None else kernel.moved
    return Workload(step, lambda: fingerprint(*tensors_in(step())), moved=moved, flops=kernel.flops)


def with_backward(torch, kernel: Kernel) -> Workload:
    """The function, and backward from a given gradient of its result; gradients start from None."""
    function = compiled(kernel.function)
    leaves = kernel.leaves
    if leaves is None:
        leaves = tuple(tensor for tensor in kernel.inputs if tensor.is_floating_point())
    for leaf in leaves:
        leaf.requires_grad_()
    result = function(*kernel.inputs)
    g = torch.from_numpy(normal(generator(21), *result.shape))

    def step():
        for leaf in leaves:
            leaf.grad = None
        result = function(*kernel.inputs)
        result.backward(g)
        return result

    moved = kernel.backward_moved
    if moved is None:
        moved = 2 * bytes_of(*kernel.inputs, *kernel.weights) + 2 * bytes_of(result) + bytes_of(*leaves)
    flops = 3 * kernel.flops if kernel.backward_flops is None else kernel.backward_flops
    return Workload(step, lambda: fingerprint(step(), *[leaf.grad for leaf in leaves]), moved=moved, flops=flops)


def draw(torch, *shapes: tuple[int, ...]) -> tuple:
    """Standard normal tensors."""
    random = generator(20)
    return tuple(torch.from_numpy(normal(random, *shape)) for shape in shapes)


def tensors_in(result) -> tuple:
    return tuple(result) if isinstance(result, tuple) else (result,)


def bytes_of(*tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
