"""Serving requests in the contract's form: one sample, one row, a dict of columns, an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from whence.data.arrays import Part, is_array, library_of, read
from whence.data.leaves import Leaf, Name
from whence.data.terms import LeafTerms, Terms


def is_sample_of(leaves: list[Leaf], terms: Terms) -> bool:
    """Whether every leaf lacks exactly the contract's batch axis."""
    known = [(leaf, terms.leaves[leaf.path]) for leaf in leaves if leaf.path in terms.leaves]
    rows = [
        (leaf, each.shape) for leaf, each in known if each.has_batch_axis and each.shape is not None
    ]
    return bool(rows) and all(
        leaf.frame is None and len(leaf.shape) == len(shape) - 1 for leaf, shape in rows
    )


def row_by_name(data: Any, terms: Terms) -> Leaf | None:
    """Convert a dict of columns or one row to the contract's frame; None for anything else."""
    expected = terms.leaves.get("")
    if expected is None or not expected.is_frame:
        return None
    if library_of(data) == "pandas" and type(data).__name__ == "Series":
        data = data.to_dict()
    names = {column.name for column in expected.columns}
    if not isinstance(data, Mapping) or not names.intersection(data):
        return None
    return Leaf("", frame=tuple((name, _column(value)) for name, value in data.items()))


def _column(value: Any) -> Part:
    """Return a column, or the single value of a row, whose Python type carries no information."""
    if is_array(value) or isinstance(value, list):
        part = read(value)
        return part if part.shape else replace(part.as_one_row(), dtype_matters=False)
    return read([value])


def in_form(leaves: list[Leaf], terms: Terms) -> list[Leaf]:
    """Convert arrays to frames and back, column by column, if the numbers of columns agree."""
    return [
        _in_form(leaf, terms.leaves[leaf.path]) if leaf.path in terms.leaves else leaf
        for leaf in leaves
    ]


def _in_form(leaf: Leaf, terms: LeafTerms) -> Leaf:
    width = len(terms.columns)
    if terms.is_frame and leaf.part is not None and leaf.part.numbers is not None:
        numbers = leaf.part.numbers
        if numbers.dim() == 1 and len(numbers) == width != 1:
            numbers = numbers.unsqueeze(0)
        if numbers.dim() == 2 and numbers.shape[1] == width:
            names: list[Name] = [
                column.name if column.name is not None else 0 for column in terms.columns
            ]
            parts = [_untyped(numbers[:, place], leaf.part.dtype) for place in range(width)]
            return Leaf(leaf.path, frame=tuple(zip(names, parts, strict=True)))
    if not terms.is_frame and leaf.frame and len(leaf.frame) == width:
        columns = [part.numbers for _, part in leaf.frame if part.numbers is not None]
        if len(columns) == width:
            table = torch.stack([each.to(torch.float64) for each in columns], dim=1)
            return Leaf(leaf.path, _untyped(table, "float64"))
    return leaf


def _untyped(numbers: torch.Tensor, dtype: str) -> Part:
    return Part(tuple(numbers.shape), dtype, numbers=numbers, dtype_matters=False)
