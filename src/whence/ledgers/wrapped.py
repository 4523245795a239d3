"""Losses whose only leaves are tensors that were made to require grad on the way."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

import torch

from whence.lineage.graph import is_weight_node, nodes_of

MOST_NODES = 16
"""A wrapped loss is only scaled or summed before backward; the graph of a model is larger."""


def loose_leaves(loss: torch.Tensor, owned: Collection[int]) -> list[torch.Tensor]:
    """The leaves of a loss that are losses, or lists of them, but no optimizer's weights."""
    if not loss.requires_grad:
        return []
    if loss.is_leaf:
        return [loss] if id(loss) not in owned else []
    nodes = list(islice(nodes_of(loss), MOST_NODES))
    leaves = [node.variable for node in nodes if is_weight_node(node)]
    if len(nodes) == MOST_NODES or any(each.dim() > 1 or id(each) in owned for each in leaves):
        return []
    return leaves
