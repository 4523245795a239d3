"""An edit that permutes axes where a reshape was used instead."""

from __future__ import annotations

import ast
import math
from itertools import permutations

from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.sites import Site
from whence.source.text import text_of

Shape = tuple[int, ...]
MOST_AXES = 5


def permuted(site: Site, before: Shape, after: Shape) -> str | None:
    """A diff that permutes axes before merging them, or splits them before permuting."""
    node = site.node()
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    if node.func.attr not in ("view", "reshape") or ast.unparse(node.func.value) == "torch":
        return None
    filename, given = site.filename, in_parentheses(site.filename, node.func.value)
    sizes = [text_of(filename, each) for each in _sizes_of(node)]
    if len(sizes) != len(after):
        return None
    if (order := _order(before, after)) is not None:
        text = f"{given}.{_moving(order)}.reshape({', '.join(sizes)})"
    elif (order := _order(after, before)) is not None:
        back = tuple(order.index(axis) for axis in range(len(order)))
        text = (
            f"{given}.{node.func.attr}({', '.join(sizes[axis] for axis in order)}).{_moving(back)}"
        )
    else:
        return None
    return diff_of(replace_node(filename, node, text))


def moved_first(site: Site, how: str) -> str | None:
    """Change `x.view(n, -1)` to `x.transpose(0, 1).reshape(n, -1)`; `how` is the transpose."""
    node = site.node()
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr not in ("view", "reshape") or ast.unparse(node.func.value) == "torch":
        return None
    given = in_parentheses(site.filename, node.func.value)
    sizes = ", ".join(text_of(site.filename, each) for each in node.args)
    text = f"{given}.{how}.reshape({sizes})"
    return diff_of(replace_node(site.filename, node, text)) if not node.keywords else None


def _sizes_of(node: ast.Call) -> list[ast.expr]:
    match node.args:
        case [ast.Tuple(elts=sizes) | ast.List(elts=sizes)]:
            return sizes
    return [] if any(isinstance(each, ast.Starred) for each in node.args) else node.args


def _order(axes: Shape, joined: Shape) -> tuple[int, ...] | None:
    """The axis order in which neighbours merge to these sizes, if one order is the nearest."""
    if len(axes) > MOST_AXES or len(axes) < len(joined) or 1 in axes:
        return None
    own = tuple(range(len(axes)))
    found = [
        each
        for each in permutations(own)
        if each != own and _joins([axes[axis] for axis in each], joined)
    ]
    nearest = min(map(_crossings, found), default=0)
    best = [each for each in found if _crossings(each) == nearest]
    return best[0] if len(best) == 1 else None


def _joins(axes: list[int], joined: Shape) -> bool:
    place = 0
    for size in joined:
        end = next(
            (end for end in range(place + 1, len(axes) + 1) if math.prod(axes[place:end]) == size),
            None,
        )
        if end is None:
            return False
        place = end
    return place == len(axes)


def _crossings(order: tuple[int, ...]) -> int:
    return sum(one > other for place, one in enumerate(order) for other in order[place + 1 :])


def _moving(order: tuple[int, ...]) -> str:
    moved = [place for place, axis in enumerate(order) if place != axis]
    if len(moved) == 2:
        return f"transpose({moved[0]}, {moved[1]})"
    return f"permute({', '.join(map(str, order))})"
