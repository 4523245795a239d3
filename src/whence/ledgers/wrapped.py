"""Losses that hang on nothing but what was made to require grad on the way."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

import torch

from whence.lineage.graph import is_weight_node, nodes_of

MOST_NODES = 16
"""A loss that was wrapped is divided, scaled or added to others before its backward; a graph with a model in it goes on."""


def loose_leaves(loss: torch.Tensor, owned: Collection[int]) -> list[torch.Tensor]:
    """The leaves that a loss hangs on: losses themselves, or lists of them, a few operations away, and no weight of an optimizer."""
    if not loss.requires_grad:
        return []
    if loss.is_leaf:
        return [loss] if id(loss) not in owned else []
    nodes = list(islice(nodes_of(loss), MOST_NODES))
    leaves = [node.variable for node in nodes if is_weight_node(node)]
    if len(nodes) == MOST_NODES or any(each.dim() > 1 or id(each) in owned for each in leaves):
        return []
    return leaves
