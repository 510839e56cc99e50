"""The offline check of GPU kernels: which modules have some, and what is wrong with the machine code of a variant."""

import inspect
import re
from pathlib import Path

import dynograd.kernels

FOLDER = Path(dynograd.kernels.__file__).parent
TARGETS = [(8, 0), (9, 0), (10, 0)]
SHARED = {(8, 0): 166912, (9, 0): 232448, (10, 0): 232448}  # bytes that one block can have
# Bytes of spills, stores and loads, that ptxas chooses although a block could have more registers: some words kept aside, mostly for
# the time of a loop, let one block more onto a processor. Its newer releases do it oftener.
CHOSEN = 80
OPTIONS = ("aligned", "spills", "capability")


def modules():
    """Names of the modules with kernels: those that say so, and those that make some for `kernels_to_check`."""
    named = re.compile(r"^@(?:launching_cuda\.)?(?:triton|simt)_kernel\(|^def kernels_to_check\(", re.MULTILINE)
    return sorted(path.stem for path in FOLDER.rglob("*.py") if named.search(path.read_text()))


def kernels_of(name):
    """(kernel, variant) pairs of a module, those it makes in `kernels_to_check()` included; (kernel, None) where it has none."""
    module = dynograd.kernels.module_of(name)
    own = [var.kernel for var in vars(module).values() if inspect.isfunction(var) and hasattr(var, "kernel")]
    pairs = [
        (kernel, variant)
        for kernel in {id(kernel): kernel for kernel in own}.values()
        if kernel.module == module.__name__
        for variant in kernel.variants or [None]
    ]
    return pairs + [(entry.kernel, variant) for entry, variant in getattr(module, "kernels_to_check", list)()]


def complaint(kernel, variant, target):
    """What is wrong with a variant for a target, or "". Compiles it, unless the kernel cache has it."""
    if variant is None:
        return f"{kernel.title} has no variants"
    if variant.get("capability", TARGETS[0]) > target:
        return ""
    what = f"for {target}, of {kernel.title}({', '.join(f'{name}={value}' for name, value in variant.items())})"
    known = {*kernel.names, *kernel.constants, *OPTIONS}
    # Types of arguments may come from a table for several kernels; a constant that no one knows is a slip.
    unknown = [name for name, value in variant.items() if name not in known and not isinstance(value, str)]
    missing = [name for name in kernel.names if name not in variant and name not in kernel.defaults]
    if unknown or missing:
        return f"unknown {unknown}, missing {missing} {what}"
    types = {name: variant.get(name) or "None" for name in kernel.names}
    constants = {name: variant.get(name, kernel.defaults.get(name, 128)) for name in kernel.constants}
    aligned = {name for name, kind in types.items() if kind[0] == "*" or name in kernel.divisible}
    if not variant.get("aligned", True):
        aligned.clear()
    try:
        binary = kernel.compiled(types, frozenset(aligned), constants, target)
    except Exception as error:
        return f"{error}\n{what}"
    budget = variant.get("spills", 0)
    threads = binary.threads or kernel.most or constants["threads"]
    if -(-binary.registers // 8) * 8 < min(248, 65536 // threads // 8 * 8):
        budget = max(budget, CHOSEN)
    if binary.spills > budget:
        return f"{binary.spills} bytes of spills where {budget} are allowed ({binary.registers} registers) {what}"
    if binary.shared > SHARED[target]:
        return f"{binary.shared} bytes of shared memory where a block has {SHARED[target]} {what}"
    if -(-binary.registers // 8) * 8 * threads > 65536:
        return f"{binary.registers} registers for each of {threads} threads where a block has 65,536 {what}"
    return ""
