"""Attention: the axis of the scores that is summed over when the weights are applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_letters

from whence.ledgers.study import Study
from whence.tape.tape import Call, Value

MATRICES = frozenset({"matmul", "__matmul__", "bmm"})
LONGEST_WAY = 8


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two tensors, with a letter for each axis, as in einsum."""

    left: str
    right: str
    made: str

    @property
    def shared(self) -> set[str]:
        """Axes that are in both factors and in the result: samples, heads."""
        return {*self.left} & {*self.right} & {*self.made}

    @property
    def summed(self) -> set[str]:
        return ({*self.left} & {*self.right}) - {*self.made}

    @property
    def is_table(self) -> bool:
        """Whether it combines each query with each key."""
        return bool({*self.made} - {*self.right}) and bool({*self.made} - {*self.left})


def summed_axis(study: Study, softmax: Call, axis: int) -> int | None:
    """The axis of attention scores that is summed over, if the softmax runs over a shared axis.

    A shared axis is one that queries and keys both have, such as heads. In routing and in cluster
    assignments a softmax over another axis is intended, but they have no table of queries and keys.
    """
    scores = _product_behind(softmax.operands[0])
    if (
        scores is None
        or len(scores.made) <= axis
        or not scores.is_table
        or scores.made[axis] not in scores.shared
    ):
        return None
    for product, weights in _products_of(study, softmax):
        if len(weights) != len(scores.made) or weights[axis] not in product.shared:
            return None
        summed = [place for place, letter in enumerate(weights) if letter in product.summed]
        return (
            summed[0] if len(summed) == 1 and scores.made[summed[0]] not in scores.shared else None
        )
    return None


def _product_behind(value: Value) -> Product | None:
    """The product behind the scores, which may be scaled or masked."""
    shape = value.shape
    for _ in range(LONGEST_WAY):
        call = value.call
        if call is None or call.forgotten or (product := _product(call)) is not None:
            return product if call is not None and not call.forgotten else None
        value = next(
            (each for each in call.operands if each.shape == shape and each.requires_grad), value
        )
        if value.call is call:
            return None
    return None


def _products_of(study: Study, softmax: Call) -> Iterator[tuple[Product, str]]:
    """The products that use the weights, possibly after dropout or masking, with their axes."""
    reached = {*softmax.outputs}
    shape = softmax.outputs[0].shape
    for call in study.calls:
        if call.number <= softmax.number or call.inner or not reached.intersection(call.operands):
            continue
        product = _product(call)
        if product is not None:
            yield product, product.left if call.operands[0] in reached else product.right
        elif call.name in ("div", "__truediv__", "sum", "mean"):
            # Normalised again, along another axis.
            return
        elif call.outputs and call.outputs[0].shape == shape:
            reached.update(call.outputs)


def _product(call: Call) -> Product | None:
    if call.name == "einsum" and len(call.operands) == 2 and isinstance(call.args[0], str):
        given, arrow, made = call.args[0].replace(" ", "").partition("->")
        left, comma, right = given.partition(",")
        return Product(left, right, made) if arrow and comma and "." not in call.args[0] else None
    if call.name not in MATRICES or len(call.operands) != 2:
        return None
    ranks = [len(each.shape) for each in call.operands]
    if ranks[0] != ranks[1] or ranks[0] < 3:
        return None
    shared = ascii_letters[: ranks[0] - 2]
    return Product(f"{shared}XY", f"{shared}YZ", f"{shared}XZ")
