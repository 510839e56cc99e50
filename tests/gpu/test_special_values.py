"""Every elementwise op at the edges of its dtypes on the device: the same class of result as on the CPU, forward and backward."""

import numpy
import pytest

import dynograd
from dynograd.cuda import driver
from dynograd.ops.op import registry
from tests.support.special_values import STATICS, differences, operands_of, told

# What is 0 by underflow, or the larger of 0 and -0, has either sign.
EITHER_ZERO = ("fmax", "fmin", "maximum", "minimum", "gelu", "gelu_backward", "logsigmoid")
# A card adds a product without rounding it before (as PyTorch's kernels do): what is infinite in between on the CPU need not be.
CONTRACTED = ("addcmul", "lerp")
OF_ROUNDING = ("NaN there", "infinity here", "infinity there", "sign of zero")


@pytest.mark.filterwarnings("ignore:.*has no kernel for GPUs")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "name", [name for name, op in registry.items() if op.kind == "elementwise" and op.promote != "integer"]
)
def test_as_on_the_cpu(name, dtype):
    op = registry[name]
    operands = operands_of(op, dtype)
    statics = [STATICS[name] for name in op.static_names]
    results = {}
    for device in ("cpu", "cuda"):
        tensors = [dynograd.tensor(x).to(getattr(dynograd, dtype)).to(device) for x in operands]
        if op.promote == "select":
            tensors[0] = tensors[0] > 0
        references = [index for index, text in enumerate(op.derivative or ()) if text]
        for index in references:
            tensors[index].requires_grad_()
        result = op.function(*tensors, *statics)
        results[device, "forward"] = result.detach().cpu().to(dynograd.float64).numpy()
        if references:
            outer = dynograd.full_like(result, 2.0).detach()
            gradients = dynograd.autograd.grad(result, [tensors[index] for index in references], outer)
            for index, gradient in zip(references, gradients, strict=True):
                results[device, f"gradient {index}"] = gradient.cpu().to(dynograd.float64).numpy()
    for device, what in results:
        if device == "cuda":
            actual, expected = results[device, what], results["cpu", what]
            for kind, where in differences(actual, expected, dtype).items():
                apart = numpy.abs(actual[where] - expected[where])
                if (
                    kind in ("value", "zero here", "zero there")
                    and ((apart < 1e-5) | (apart < 1e-4 * numpy.abs(expected[where]))).all()
                ):
                    continue
                if kind == "sign of zero" and name in EITHER_ZERO:
                    continue
                if name in CONTRACTED and not driver.is_emulated() and kind in OF_ROUNDING:
                    continue
                pytest.fail(f"{name}, {what}: {kind}: {told(operands, actual, expected, where)}")
