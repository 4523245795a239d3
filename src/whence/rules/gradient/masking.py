"""Diffs that add a missing causal mask to attention."""

from __future__ import annotations

import ast
from itertools import takewhile

from torch import nn

from whence.rules.source_operands import operand_nodes
from whence.source.edits import diff_of, give_by_name, replace_node
from whence.source.statements import reached
from whence.source.text import last_name, text_of
from whence.tape.scopes import Scope, parts_of
from whence.tape.tape import Call

SDPA = "scaled_dot_product_attention"
MASKS: dict[type[nn.Module], tuple[str, int]] = {
    nn.TransformerEncoder: ("mask", 1),
    nn.TransformerEncoderLayer: ("src_mask", 1),
    nn.TransformerDecoder: ("tgt_mask", 2),
    nn.TransformerDecoderLayer: ("tgt_mask", 2),
    nn.MultiheadAttention: ("attn_mask", 5),
}
"""The name of each layer's mask argument, and the number of arguments before it."""


def masked(leak: Call | None) -> str | None:
    """A diff that adds a causal mask to an attention call without one."""
    node = leak.site.node() if leak is not None and leak.site is not None else None
    if leak is None or not isinstance(node, ast.Call):
        return None
    if leak.name == SDPA and last_name(node.func) == SDPA:
        return _made_causal(leak, node)
    return _scores_masked(leak) if leak.name == "softmax" else _layer_masked(leak, node)


def _made_causal(leak: Call, node: ast.Call) -> str | None:
    masks = [*node.args[3:4], *(each.value for each in node.keywords if each.arg == "attn_mask")]
    if leak.site is None or len(node.args) > 4 or not all(_is_none(each) for each in masks):
        return None
    return diff_of(give_by_name(leak.site.filename, node, "is_causal", "True"))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _scores_masked(leak: Call) -> str | None:
    """Mask a square score matrix: with queries in rows, the upper triangle is the future."""
    nodes, scores = operand_nodes(leak), leak.operands[0]
    axis = leak.kwargs.get("dim", leak.args[1] if len(leak.args) > 1 else None)
    if (
        leak.site is None
        or not nodes
        or not isinstance(nodes[0], ast.Name)
        or len(scores.shape) < 2
    ):
        return None
    if axis not in (-1, len(scores.shape) - 1) or scores.shape[-1] != scores.shape[-2]:
        return None
    filename = leak.site.filename
    ones, imports = reached(filename, "torch", "ones_like")
    kind, more = reached(filename, "torch", "bool")
    name = text_of(filename, nodes[0])
    text = f'{name}.masked_fill({ones}({name}, dtype={kind}).triu(1), float("-inf"))'
    return diff_of(*dict.fromkeys((*imports, *more)), replace_node(filename, nodes[0], text))


def _layer_masked(leak: Call, node: ast.Call) -> str | None:
    """Mask the outermost attention layer of PyTorch: it is the one that the program calls."""
    scopes = leak.module.lineage() if isinstance(leak.module, Scope) else ()
    own = takewhile(
        lambda each: type(each).__module__.startswith("torch.nn"),
        (scope.module for scope in scopes),
    )
    *_, layer = None, *(each for each in own if isinstance(each, tuple(MASKS)))
    if (
        layer is None
        or leak.site is None
        or not node.args
        or not isinstance(node.args[0], ast.Name | ast.Attribute)
    ):
        return None
    name, before = next(found for kind, found in MASKS.items() if isinstance(layer, kind))
    if len(node.args) > before or any(
        each.arg in (name, "is_causal", None) for each in node.keywords
    ):
        return None
    attention = next(each for each in parts_of(layer) if isinstance(each, nn.MultiheadAttention))
    filename = leak.site.filename
    function, imports = reached(filename, "torch.nn", "Transformer")
    subject = text_of(filename, node.args[0])
    axis = 1 if attention.batch_first else 0
    text = (
        f"{function}.generate_square_subsequent_mask({subject}.size({axis}), "
        f"device={subject}.device)"
    )
    return diff_of(*imports, give_by_name(filename, node, name, text))
