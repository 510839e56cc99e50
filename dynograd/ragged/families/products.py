"""Products: with a dense matrix on packed elements, with a matrix of each row and between ragged tensors row by row."""

from __future__ import annotations

from typing import Any

from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.each import each
from dynograd.ragged.families.elementwise import spread
from dynograd.ragged.families.groups import grouped
from dynograd.ragged.families.levels import is_deep, lifted, lower, raised
from dynograd.ragged.families.row_products import multiplied
from dynograd.ragged.families.subscripts import spelled
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Shapes
from dynograd.ragged.tensor import RaggedTensor

__all__ = ["matmul"]


@ragged_rule(
    "matmul",
    kind="packed",
    note="with a dense matrix on packed elements; with matrices of each row, rows of equal shape together",
)
def matmul(call: Call) -> Any:
    """A matrix that all rows share multiplies the packed elements; matrices of each row multiply that row."""
    a, b = call["input"], call["other"]
    if isinstance(a, RaggedTensor) and not isinstance(b, RaggedTensor):
        simple = not isinstance(a.partition, Shapes) and a.place < a.ndim - 1
        if simple and (b.ndim <= 2 or all(size == 1 for size in tuple(b.shape)[:-2])):
            matrix = b if b.ndim <= 2 else run("reshape", b, tuple(b.shape)[-2:])
            return a.with_packed(run("matmul", a.packed, matrix))
    elif isinstance(b, RaggedTensor) and not isinstance(a, RaggedTensor):
        simple = not isinstance(b.partition, Shapes) and b.place == b.ndim - 1 and b.ndim > 2
        if simple and a.ndim == 2 and not isinstance(b.packed, RaggedTensor):
            return b.with_packed(run("matmul", a, b.packed))
    for x in (a, b):
        if is_deep(x):
            return lifted(call)
    if a.ndim == 2 and isinstance(a, RaggedTensor) and isinstance(b, RaggedTensor) and b.ndim == 2:
        raise call.refuse(
            "the product of two ragged matrices (B, j) would sum over elements of different rows. Use (x * y).sum(1), or unsqueeze."
        )
    if isinstance(a, RaggedTensor) and a.ndim == 2 and isinstance(b, RaggedTensor):
        return _of_rows(call, a.unsqueeze(1), b).squeeze(1)
    if isinstance(b, RaggedTensor) and b.ndim == 2:
        return _of_rows(call, a, b.unsqueeze(2)).squeeze(-1)
    return _of_rows(call, a, b)


def _of_rows(call: Call, a: Any, b: Any) -> Any:
    """Each row's matrices with its own: side by side in memory where the ragged dim lies in front of them, else by a plan."""
    ragged = isinstance(a, RaggedTensor) and isinstance(b, RaggedTensor)
    if ragged and a.ndim == b.ndim and a.place == b.place < a.ndim - 2 and a.place and not is_deep(a):
        a.partition.check_same("matmul", b.partition)
        return a.with_packed(run("matmul", a.packed, b.packed))
    product = multiplied(a, b)
    return grouped(Call(call.key, call.op, {"input": a, "other": b})) if product is None else product


@ragged_rule("mm", "bmm", "mv", "linalg_matmul", kind="packed")
def as_matmul(call: Call) -> Any:
    """As `matmul`."""
    first, second = list(call.arguments.values())[:2]
    return run("matmul", first, second)


@ragged_rule("addbmm", kind="packed")
def addbmm(call: Call) -> Any:
    """The sum over rows and their elements: one product of packed elements."""
    a, b = call["batch1"], call["batch2"]
    if not (isinstance(a, RaggedTensor) and isinstance(b, RaggedTensor) and a.place == 2 and b.place == 1):
        raise call.refuse(
            "the sum over rows needs batch1 (B, n, j) and batch2 (B, j, m), ragged in the dim that is summed. Use bmm(...).sum(0)."
        )
    a.partition.check_same("addbmm", b.partition, ("batch1's", "batch2's"))
    product = run("matmul", a.packed, b.packed)
    product = product if call["alpha"] == 1 else product * call["alpha"]
    return product if call["beta"] == 0 else call["input"] * call["beta"] + product


@ragged_rule(
    "einsum",
    kind="groups",
    note="with dense operands without the letter of the rows on packed elements, else row by row",
)
def einsum(call: Call) -> Any:
    """The letter of dim 0 of ragged operands counts the rows; the output must have it in front, or not at all."""
    equation, operands = call["equation"], tuple(call["operands"])
    if not isinstance(equation, str):
        raise call.refuse("with ragged operands write the equation as text, such as 'btd,de->bte'.")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    letters, output = spelled(equation, operands)
    ragged = [number for number, operand in enumerate(operands) if isinstance(operand, RaggedTensor)]
    heads = {letters[number][0] for number in ragged}
    if len(heads) != 1:
        raise call.refuse(f"ragged operands must share the letter of their rows in front, got {equation!r}.")
    head = heads.pop()
    if any([is_deep(operand) for operand in operands]):
        return _einsum_levels(call, head, letters, output, operands)
    whole = output if head in output else head + output
    if whole[0] != head:
        raise call.refuse(f"the letter of the rows ({head!r}) must come first in the output, got {equation!r}.")
    result = _einsum_packed(head, letters, whole, operands, ragged)
    if result is None and len(operands) == 2 and head in output:
        result = _einsum_product(head, letters, whole, operands)
    if result is None:
        result = _einsum_rows(call, head, letters, whole, operands)
    return result if head in output else result.sum(0)


def _einsum_packed(head: str, letters: list[str], output: str, operands: tuple, ragged: list[int]) -> Any:
    """On packed elements: rows and the ragged dim of one operand become one letter; None when that is not all there is."""
    first = operands[ragged[0]]
    if isinstance(first.partition, Shapes) or isinstance(first.packed, RaggedTensor):
        return None
    own = letters[ragged[0]][first.place]
    for number, (text, operand) in enumerate(zip(letters, operands, strict=True)):
        if number in ragged:
            same = (
                not isinstance(operand.partition, Shapes)
                and operand.partition.same(first.partition)
                and not isinstance(operand.packed, RaggedTensor)
            )
            if not same or text[operand.place] != own or text.count(head) > 1 or text.count(own) > 1:
                return None
        elif head in text or own in text:
            return None
    if own not in output:
        return None
    texts = [text[1:] if number in ragged else text for number, text in enumerate(letters)]
    packed = [operand.packed if number in ragged else operand for number, operand in enumerate(operands)]
    product = run("einsum", f"{','.join(texts)}->{output[1:]}", *packed)
    return first.with_packed(product, output.index(own))


def _einsum_levels(call: Call, head: str, letters: list[str], output: str, operands: tuple) -> Any:
    """With several levels of rows: the letter of the rows goes, and the next one counts the rows of the lower level."""
    deep = next(number for number, operand in enumerate(operands) if is_deep(operand))
    upper, below = operands[deep].partition, letters[deep][1]
    texts, lowered = [], []
    for text, operand in zip(letters, operands, strict=True):
        if isinstance(operand, RaggedTensor):
            if text[1] != below:
                raise call.refuse(f"ragged operands must share the letters of their levels, got {call['equation']!r}.")
            text, operand = text[1:], lower(call, operand, upper)
        elif head in text:
            at = text.index(head)
            if below in text:
                raise call.refuse(
                    f"a dense operand ({text!r}) has no size for the letter of the lower level ({below!r})."
                )
            operand = spread(operand.movedim(at, 0), upper)
            text = below + text.replace(head, "")
        texts.append(text)
        lowered.append(operand)
    kept = [letter for letter in output if letter != head]
    result = "".join([below, *[letter for letter in kept if letter != below]])
    if head not in output:
        if below in output:
            raise call.refuse(f"the rows of the lower level ({below!r}) are kept without those above ({head!r}).")
        return call.on(
            {**call.arguments, "equation": f"{','.join(texts)}->{''.join(kept)}", "operands": tuple(lowered)}
        )
    if below in kept and kept[0] != below:
        raise call.refuse(
            f"the letters of the levels ({head + below!r}) must come first in the output, got {output!r}."
        )
    total = raised(
        call.on({**call.arguments, "equation": f"{','.join(texts)}->{result}", "operands": tuple(lowered)}), upper
    )
    return total if below in kept else total.sum(1)


def _einsum_product(head: str, letters: list[str], output: str, operands: tuple) -> Any:
    """Two operands as one matrix product for each row; None where letters stand for a diagonal or a sum of one operand alone."""
    first, second = letters
    if head not in first or head not in second or any([len(set(text)) < len(text) for text in (first, second, output)]):
        return None
    if (set(first) ^ set(second)) - set(output) or set(output) - set(first) - set(second):
        return None
    beside = [letter for letter in first if letter in second and letter in output and letter != head]
    summed = [letter for letter in first if letter in second and letter not in output]
    own = [[letter for letter in text if letter not in other] for text, other in ((first, second), (second, first))]
    if max(len(summed), len(own[0]), len(own[1])) > 1 or not summed:
        return None
    if any(
        [isinstance(x, RaggedTensor) and _is_beside(x, text, beside) for x, text in zip(operands, letters, strict=True)]
    ):
        return None

    def ordered(x: Any, text: Any, order: list[str]) -> Any:
        return x if list(text) == order else run("permute.public", x, *[text.index(letter) for letter in order])

    def arranged(x: Any, text: str, last: list[str], at: int) -> Any:
        x = ordered(x, text, [head, *beside, *last])
        return x if len(last) == 2 else x.unsqueeze(at)

    left = arranged(operands[0], first, [*own[0], *summed], -2)
    right = arranged(operands[1], second, [*summed, *own[1]], -1)
    product = run("matmul", left, right)
    if not own[0]:
        product = product.squeeze(product.ndim - 2)
    if not own[1]:
        product = product.squeeze(product.ndim - 1)
    return ordered(product, [head, *beside, *own[0], *own[1]], list(output))


def _is_beside(x: RaggedTensor, text: str, beside: list[str]) -> bool:
    """Whether a ragged dim of `x` is one of the batch."""
    part = x.partition
    ragged = [dim for dim, size in enumerate(part.fixed, 1) if size is None] if isinstance(part, Shapes) else [x.place]
    return is_deep(x) or any([text[dim] in beside for dim in ragged])


def _einsum_rows(call: Call, head: str, letters: list[str], output: str, operands: tuple) -> Any:
    dense = []
    for text, operand in zip(letters, operands, strict=True):
        if not isinstance(operand, RaggedTensor) and head in text and text[0] != head:
            operand = operand.movedim(text.index(head), 0)
            text = head + text.replace(head, "")
        dense.append((text, operand))
    equation = f"{','.join([text for text, _ in dense])}->{output}"
    arguments = {"equation": equation, "operands": tuple([operand for _, operand in dense])}
    own = [text[0] == head for text, _ in dense]
    return grouped(Call(call.key, call.op, arguments), lambda name, number: name == "operands" and own[number])


@ragged_rule("tensordot", kind="packed")
def tensordot(call: Call) -> Any:
    """With a dense tensor, over dims beside the rows and the ragged one: on packed elements."""
    a, b, dims = call["a"], call["b"], call["dims"]
    if isinstance(b, RaggedTensor):
        raise call.refuse("the contraction with a ragged tensor (b); use einsum or matmul.")
    if isinstance(dims, int):
        mine, other = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        mine, other = [[dim] if isinstance(dim, int) else list(dim) for dim in dims]
    mine = [dim % a.ndim for dim in mine]
    if 0 in mine or a.place in mine:
        raise call.refuse(
            f"dims {mine} with the rows (0) or the ragged dim ({a.place}) among them cannot be contracted with a dense tensor."
        )
    if isinstance(a.partition, Shapes):
        return grouped(call)
    packed = call.with_(a=a.packed, dims=([dim - 1 for dim in mine], other))
    return a.with_packed(packed, a.place - sum([dim < a.place for dim in mine]))


@ragged_rule("inner", kind="packed")
def inner(call: Call) -> Any:
    """Over the last dim: with a dense tensor on packed elements; of two ragged tensors (B, j), each row with its own."""
    a, b = call["input"], call["other"]
    if isinstance(a, RaggedTensor) and not isinstance(b, RaggedTensor):
        if isinstance(a.partition, Shapes):
            return grouped(call)
        if a.place < a.ndim - 1:
            return a.with_packed(call.with_(input=a.packed))
    return each(call)
