"""Find the first module whose result differs between two runs that should agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from whence.checking.structure import real_tensors
from whence.checking.subject import Subject, forward

Differs = Callable[[torch.Tensor, torch.Tensor], bool]


@dataclass(frozen=True, slots=True)
class Passage:
    """Inputs and outputs of a module."""

    path: str
    given: list[torch.Tensor]
    made: list[torch.Tensor]


def first_module(
    subject: Subject, some: tuple[Any, Any], others: tuple[Any, Any], differs: Differs
) -> str | None:
    """Return the first module to finish with a different result for the same inputs."""
    before, after = _passages(subject, *some), _passages(subject, *others)
    for one, other in zip(before, after, strict=False):
        if (
            one.path == other.path
            and _any(one.made, other.made, differs)
            and not _any(one.given, other.given, differs)
        ):
            return one.path
    return None


def _passages(subject: Subject, args: Any, kwargs: Any) -> list[Passage]:
    model = subject.fresh().model.eval()
    found: list[Passage] = []

    def note(path: str, args: Any, kwargs: Any, output: Any) -> None:
        found.append(Passage(path, _kept((args, kwargs)), _kept(output)))

    for path, module in model.named_modules():
        module.register_forward_hook(
            lambda _module, *passed, path=path: note(path, *passed), with_kwargs=True
        )
    forward(model, args, kwargs)
    return found


def _kept(tree: Any) -> list[torch.Tensor]:
    return [each.detach().clone() for each in real_tensors(tree)]


def _any(some: list[torch.Tensor], others: list[torch.Tensor], differs: Differs) -> bool:
    return any(
        one.shape == other.shape and differs(one, other)
        for one, other in zip(some, others, strict=False)
    )
