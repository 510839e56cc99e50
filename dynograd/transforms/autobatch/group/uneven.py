"""Calls whose shapes differ in one dim run as one group: attention over memories of different lengths, sets, sentences.

Forms that differ in the size of one dim only make a family. A group of such calls runs once, on ragged tensors: rows of the dim lie
behind one another in one slab (`packed`), of which a call's result is a span. So a decoder that looks at sources of twenty different
lengths takes as many groups as one that looks at sources of one length.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.autograd.modes import MODES
from dynograd.ops.op import registry
from dynograd.ragged.partitions import Partition
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.transforms.autobatch.group.gathering import arguments, operand, spans
from dynograd.transforms.autobatch.group.rows import reshaped, slab_of
from dynograd.transforms.autobatch.group.sharing import are_tensors
from dynograd.transforms.autobatch.record.forms import Form, frozen
from dynograd.transforms.batching.batched import Level, make_batched

_MANY = 64  # calls of one form, on average, that are worth a group of their own


class Family:
    """Forms that differ in the size of one dim.

    `inputs` and `outputs` say for each operand and result which dim that is, or None where it is the same for all. `key` is what all
    forms have in common.
    """

    def __init__(self, key: Any, form: Form, shapes: list[Any]) -> None:
        self.key, self.first, self.shapes = key, form, shapes
        self.shapes_of: dict[Form, list[Any]] = {form: shapes}
        self.label, self.op = form.label, form.op
        self.joins = form.joins  # operands of one kind, as many as there are
        self.inputs: list[int | None] = [None] * len(shapes)
        along = form.statics["dim"] % len(form.kinds[0].shape) if self.joins else None
        self.outputs: list[int | None] = [along] * len(form.kinds)

    def take(self, form: Form, shapes: list[Any]) -> bool:
        """Whether the form belongs here; from then on it does."""
        inputs = self.inputs
        if self.joins:
            if set(shapes) != set(self.shapes):
                return False
        else:
            inputs = [_differing(*pair) for pair in zip(self.inputs, self.shapes, shapes, strict=True)]
            members = [shapes] if inputs == self.inputs else [shapes, *self.shapes_of.values()]
            if _WRONG in inputs or not all([_one_size(inputs, member) for member in members]):
                return False
        own, other = [kind.shape for kind in self.first.kinds], [kind.shape for kind in form.kinds]
        outputs = [_differing(*pair) for pair in zip(self.outputs, own, other, strict=True)]
        if _WRONG in outputs:
            return False
        self.inputs, self.outputs, self.shapes_of[form] = inputs, outputs, shapes
        return True

    def length(self, form: Form) -> int:
        """The size of the uneven dim in a call of the form."""
        places = zip(self.inputs, self.shapes_of[form], strict=True)
        return next(shape[dim] for dim, shape in places if dim is not None)

    def __repr__(self) -> str:
        texts = []
        for dim, kind in zip(self.outputs, self.first.kinds, strict=True):
            text = repr(kind)
            if dim is not None:
                sizes = [str(size) for size in kind.shape]
                sizes[dim] = "*"
                text = f"{text.partition('[')[0]}[{', '.join(sizes)}]"
            texts.append(text)
        return f"{self.label} -> {', '.join(texts)}"


_WRONG = -1


def _one_size(dims: list[int | None], shapes: list[Any]) -> bool:
    """Whether operands of these shapes have one size in their uneven dims, of which there are some."""
    return len({shape[dim] for dim, shape in zip(dims, shapes, strict=True) if dim is not None}) == 1


def _differing(known: int | None, first: tuple[int, ...], other: tuple[int, ...]) -> int | None:
    """The only dim in which the two shapes differ, or `known`; `_WRONG` where they differ in others, or rows would not lie together."""
    if len(first) != len(other):
        return _WRONG
    result = known
    for dim, (size, size_of_other) in enumerate(zip(first, other, strict=True)):
        if size != size_of_other:
            if result is not None and result != dim:
                return _WRONG
            result = dim
    if result is not None and (math.prod(first[:result]) != 1 or math.prod(other[:result]) != 1):
        return _WRONG
    return result


def families_of(waiting: list[Any], refused: set[Any]) -> dict[Form, Family]:
    """The families among the forms of the buckets that wait: these alone decide, in their order, and no groups that ran before.

    `refused` has the keys of families that cannot run together.
    """
    alike: dict[Any, list[tuple[Form, list[Any]]]] = {}
    for form, bucket in {bucket.form: bucket for bucket in waiting}.items():
        if form.family_traits is None:
            form.family_traits = _traits_of(form, bucket) or ()
        if form.family_traits:
            key, shapes = form.family_traits
            alike.setdefault(key, []).append((form, shapes))
    by_key: dict[Form, Family] = {}
    for key, forms in alike.items():
        if len(forms) < 2 or key in refused:
            continue
        families: list[Family] = []
        for form, shapes in forms:
            if not any([family.take(form, shapes) for family in families]):
                families.append(Family(key, form, shapes))
        for family in families:
            if len(family.shapes_of) > 1:
                by_key.update(dict.fromkeys(family.shapes_of, family))
    return by_key


def scheduled_as(bucket: Any, families: dict[Form, Family]) -> tuple[Any, tuple]:
    """What a bucket is scheduled as: its form, or the family of that, and the operands that its calls share."""
    family = families.get(bucket.form)
    if family is None:
        return bucket.form, bucket.shared
    if not any(bucket.shared):
        return family, () if family.joins else bucket.shared  # as many rows as there are
    uneven = zip(family.inputs, _shared_of(bucket), strict=True)
    if any([dim is not None and operand is not None for dim, operand in uneven]):  # the same tensor for all: no rows
        return bucket.form, bucket.shared
    return family, bucket.shared


def _shared_of(bucket: Any) -> list[Any]:
    """For each tensor among a call's operands the one that all calls share, or None where it is a row."""
    return [shared for shared, tensor in zip(bucket.shared, are_tensors(bucket.form), strict=True) if tensor]


def _traits_of(form: Form, bucket: Any) -> tuple[Any, list[Any]] | None:
    """(what the form has in common with others of its family, the shapes of its operands); None where it can be in none."""
    if type(form) is not Form or (not form.op.row["uneven"] and form.op.kind != "elementwise"):
        return None
    if form.number is not None or form.op.row["by_row"] or not form.op.array_names:
        return None
    if any([kind.device.type != "cpu" or not kind.size for kind in form.kinds]):
        return None
    kinds = _operand_kinds(form, bucket)
    if kinds is None or any([not kind.size for kind in kinds]):
        return None
    joins = form.joins
    of_operands = [(len(kind.shape), kind.dtype.num, kind.grad and bool(form.grad)) for kind in kinds]
    try:
        key = (
            form.op.name, form.grad, form.casting, joins, frozenset(of_operands) if joins else tuple(of_operands),
            tuple([frozen(static) for static in form.statics.values()]), tuple([(len(kind.shape), kind.dtype.num) for kind in form.kinds]),
        )  # fmt: skip
        hash(key)
    except TypeError:
        return None
    return key, [kind.shape for kind in kinds]


def _operand_kinds(form: Form, bucket: Any) -> list[Any] | None:
    """The kinds of the tensors among a call's operands, in order; None where one is no tensor."""
    if any([type(listed) is tuple and listed[0] is not None for _, listed in form.places]):
        return None
    columns, ports = iter(bucket.columns), bucket.recorder.ports
    return [
        ports[next(columns)[0] >> 32].kind if parameter is None else parameter.kind for parameter in _shared_of(bucket)
    ]


# --- running -----------------------------------------------------------------------------------------------------------------------


def run_family(recorder: Any, family: Family, buckets: list[Any]) -> bool:
    """Runs calls of several forms of a family at once; False where each form is to run for itself."""
    counts = [bucket.count() for bucket in buckets]
    size = sum(counts)
    refused = recorder.refused_families
    if family.key in refused or recorder.failed or size > _MANY * len({bucket.form for bucket in buckets}):
        return False
    MODES.grad = 2 * family.first.grad  # nodes are shown to the recorder's watcher
    try:
        result = _joined(recorder, family, buckets) if family.joins else _computed(recorder, family, buckets, counts)
    except MemoryError:  # it says nothing of the call
        raise
    except Exception as error:  # of one call, or of an op that reads its rows' values: alone, each form says so
        refused.add(family.key)
        recorder.report.note_refused(
            family.label, f"each size of a dim in a group of its own ({type(error).__name__}: {str(error)[:80]})"
        )
        return False
    if result is None:
        return False
    nodes = [slab_of(result) for result in result]
    sources = dict.fromkeys([source.form for bucket in buckets for source in bucket.sources])
    for number, (dim, output, node) in enumerate(zip(family.outputs, result, nodes, strict=True)):
        at = 0
        for bucket, count in zip(buckets, counts, strict=True):
            port = bucket.ports[number]
            port.slab, port.slab_node, port.offset = output, node, at
            if dim is not None:
                port.span = port.kind.shape[dim]
            at += count * (port.span or 1)
    for bucket in buckets:
        bucket.close()
    recorder.report.note_group(family, size, sources)
    return True


def _computed(recorder: Any, family: Family, buckets: list[Any], counts: list[int]) -> list[Any]:
    """The results of all calls: rows along dim 0, or rows of the uneven dim behind one another."""
    form, size, tensors = family.first, sum(counts), []
    own = [
        place for place, shared in enumerate(_shared_of(buckets[0])) if shared is None
    ]  # operands that are rows of ports
    lengths = [family.length(bucket.form) for bucket in buckets]
    part = Partition(numpy.repeat(numpy.array(lengths, numpy.int64), counts))
    with Level(size, "error") as level:
        for column, place in enumerate(own):
            codes = [code for bucket in buckets for code in bucket.columns[column]]
            dim = family.inputs[place]
            if dim is None:
                value, stacked = operand(recorder, codes, size)
                tensors.append(make_batched(level, value) if stacked else value)
            else:
                packed = spans(recorder, codes, part, dim)
                packed = registry["view"].function(packed, (*(1,) * dim, *packed.shape)) if dim else packed
                tensors.append(make_batched(level, make(packed, part, dim + 1)))
        operands = arguments(form, buckets[0].shared, iter(tensors))
        result = form.call(operands)
        listed = []
        results = [result] if form.single else list(result)
        for place, (dim, computed) in enumerate(zip(family.outputs, results, strict=True)):
            inner = computed.inner
            if dim is None:
                listed.append(inner)
                continue
            if type(inner) is not RaggedTensor or inner.place != dim + 1:
                raise TypeError("rows do not lie together")
            packed = inner.packed
            rows = sum(
                [count * bucket.form.kinds[place].shape[dim] for bucket, count in zip(buckets, counts, strict=True)]
            )
            if packed.shape[dim] != rows:
                raise TypeError(f"expected {rows} rows, got {packed.shape[dim]}")
            listed.append(registry["view"].function(packed, tuple(packed.shape[dim:])) if dim else packed)
    return listed


def _joined(recorder: Any, family: Family, buckets: list[Any]) -> list[Any] | None:
    """The result of `stack` or `cat`: all operands, gathered at once. None: some are shared."""
    if any([any(bucket.shared) for bucket in buckets]):
        return None
    codes = [code for bucket in buckets for call in zip(*bucket.columns, strict=True) for code in call]
    result, stacked = operand(recorder, codes, len(codes), own=True)
    (dim,) = family.outputs
    return [reshaped(result, (-1, *family.first.kinds[0].shape[dim + 1 :]))] if stacked else None  # type: ignore[operator]
