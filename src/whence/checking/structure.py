"""Batches and outputs of any structure: their tensors, and copies with other tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

DEEPEST = 8


def tensors_in(tree: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor with its path: `[0]`, `["x"]`, `.logits`."""
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif depth < DEEPEST:
        for place, each in _children(tree):
            yield from tensors_in(each, path + place, depth + 1)


def _children(tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        yield from ((f"[{key!r}]", each) for key, each in tree.items())
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        yield from ((f".{name}", each) for name, each in zip(tree._fields, tree, strict=True))
    elif isinstance(tree, tuple | list):
        yield from ((f"[{number}]", each) for number, each in enumerate(tree))
    elif _is_record(tree):
        yield from ((f".{name}", each) for name, each in vars(tree).items())


def _is_record(tree: Any) -> bool:
    """Whether a thing is a dataclass or a plain object that holds tensors."""
    if isinstance(tree, torch.nn.Module | type) or callable(tree):
        return False
    return hasattr(tree, "__dict__") and not type(tree).__module__.startswith(("torch", "builtins"))


def mapped(tree: Any, change: Callable[[Any], Any], depth: int = 0) -> Any:
    """Copy the structure with each leaf mapped. Anything that is not a container is a leaf."""
    if isinstance(tree, torch.Tensor) or depth >= DEEPEST:
        return change(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(each, change, depth + 1) for each in tree))
    if isinstance(tree, tuple):
        return tuple(mapped(each, change, depth + 1) for each in tree)
    if isinstance(tree, list):
        return [mapped(each, change, depth + 1) for each in tree]
    if isinstance(tree, Mapping):
        inside = {key: mapped(each, change, depth + 1) for key, each in tree.items()}
        return _refilled(tree, inside)
    if _is_record(tree) and (dataclasses.is_dataclass(tree) or any(True for _ in tensors_in(tree))):
        made = copy.copy(tree)
        for name, each in vars(tree).items():
            object.__setattr__(made, name, mapped(each, change, depth + 1))
        return made
    return change(tree)


def _refilled(tree: Mapping[Any, Any], inside: dict[Any, Any]) -> Any:
    """Build a mapping of the same type, if it can be filled."""
    if type(tree) is dict:
        return inside
    try:
        made = copy.copy(tree)
        made.update(inside)  # type: ignore[attr-defined]
        return made
    except Exception:
        return inside


def copied(tree: Any) -> Any:
    """Copy the structure with cloned tensors, off any graph."""
    return mapped(tree, lambda leaf: fresh(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def fresh(tensor: torch.Tensor) -> torch.Tensor:
    made = tensor.detach().clone()
    return made.requires_grad_(tensor.requires_grad) if tensor.requires_grad else made


def real_tensors(tree: Any) -> list[torch.Tensor]:
    """Return the floating-point tensors of a structure."""
    return [each for _, each in tensors_in(tree) if each.is_floating_point() or each.is_complex()]
