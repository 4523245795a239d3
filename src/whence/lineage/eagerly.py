"""What `torch.func` computes, computed once more without it: one sample after the other, gradients by plain autograd.

It runs the program's own functions a second time, so it belongs into a child process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from whence.torch_internals import (
    apis,
    broadcast_to_and_flatten,
    eager_transforms,
    process_batched_inputs,
    tree_flatten,
    tree_map,
    tree_unflatten,
)


class Watch(Protocol):
    """Who looks on: a loss is about to be computed, is there, and has its gradients."""

    def begins(self, weights: dict[str, torch.Tensor]) -> None: ...
    def has_loss(self, loss: torch.Tensor) -> None: ...
    def has_gradients(
        self, weights: list[torch.Tensor], gradients: list[torch.Tensor | None]
    ) -> None: ...


class Eagerly:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._depth = 0

    def run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._in_place_of_torch(), torch.enable_grad():
            run: Callable[..., Any] = self._vmap if name == "vmap_impl" else self._grad_and_value
            return run(*args, **kwargs)

    @contextmanager
    def _in_place_of_torch(self) -> Iterator[None]:
        gradients, batches = vars(eager_transforms), vars(apis)
        originals = gradients["grad_and_value_impl"], batches["vmap_impl"]
        gradients["grad_and_value_impl"], batches["vmap_impl"] = self._grad_and_value, self._vmap
        try:
            yield
        finally:
            gradients["grad_and_value_impl"], batches["vmap_impl"] = originals

    def _grad_and_value(
        self, func: Callable[..., Any], argnums: Any, has_aux: bool, args: Any, kwargs: Any
    ) -> Any:
        is_outermost = self._depth == 0
        args = list(args)
        places = [
            each % len(args) for each in (argnums if isinstance(argnums, tuple) else (argnums,))
        ]
        weights: dict[str, torch.Tensor] = {}

        def own(path: str, thing: Any) -> Any:
            if not isinstance(thing, torch.Tensor):
                return thing
            weights[path] = (
                thing.clone() if thing.requires_grad and not is_outermost else thing.detach()
            )
            if weights[path].is_leaf:
                weights[path].requires_grad_()
            return weights[path]

        for place in places:
            args[place] = _map_with_paths(own, args[place], f"argument {place + 1}")
        if is_outermost:
            self._watch.begins(weights)
        self._depth += 1
        try:
            output = func(*args, **kwargs)
        finally:
            self._depth -= 1
        loss, aux = output if has_aux else (output, None)
        leaves = list(weights.values())
        if is_outermost:
            self._watch.has_loss(loss)
        found = torch.autograd.grad(loss, leaves, create_graph=not is_outermost, allow_unused=True)
        if is_outermost:
            self._watch.has_gradients(leaves, list(found))
        slopes = iter(
            [
                torch.zeros_like(leaf) if each is None else each
                for leaf, each in zip(leaves, found, strict=True)
            ]
        )
        given = [
            tree_map(lambda each: next(slopes) if isinstance(each, torch.Tensor) else each, args[n])
            for n in places
        ]
        gradients = tuple(given) if isinstance(argnums, tuple) else given[0]
        return gradients, (loss, aux) if has_aux else loss

    def _vmap(
        self,
        func: Callable[..., Any],
        in_dims: Any,
        out_dims: Any,
        _randomness: str,
        _chunk_size: int | None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        count, axes, leaves, spec = process_batched_inputs(in_dims, args, func)
        results, made = [], None
        for number in range(count):
            pairs = zip(leaves, axes, strict=True)
            one = [leaf if axis is None else leaf.select(axis, number) for leaf, axis in pairs]
            flat, made = tree_flatten(func(*tree_unflatten(one, spec), **kwargs))
            results.append(flat)
        assert made is not None
        places = broadcast_to_and_flatten(out_dims, made)
        assert places is not None
        columns = [
            torch.stack(column, axis)
            if isinstance(column[0], torch.Tensor) and axis is not None
            else column[0]
            for column, axis in zip(map(list, zip(*results, strict=True)), places, strict=True)
        ]
        return tree_unflatten(columns, made)


def _map_with_paths(function: Callable[[str, Any], Any], tree: Any, path: str) -> Any:
    """Leaves of plain containers, named by their key where they have one."""
    if isinstance(tree, dict):
        return type(tree)(
            (key, _map_with_paths(function, each, str(key))) for key, each in tree.items()
        )
    if isinstance(tree, tuple | list):
        found = [_map_with_paths(function, each, f"{path}[{n}]") for n, each in enumerate(tree)]
        return type(tree)(*found) if hasattr(tree, "_fields") else type(tree)(found)
    return function(path, tree)
