"""What a rule is, and how the rules are found and asked."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module

import whence.rules
from whence.finding import Finding
from whence.tape.failed import FailedCall

Diagnose = Callable[[FailedCall], Finding | None]


class Rank(IntEnum):
    """Who is asked first: a cause upstream explains more than the call that raised, and that more than a general rule."""

    CAUSE = 0
    CALL = 1
    GENERAL = 2


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    rank: Rank
    diagnose: Diagnose
    documentation: str

    @property
    def family(self) -> str:
        return self.id.split("/")[0]

    @property
    def summary(self) -> str:
        return self.documentation.splitlines()[0]


_registered: dict[str, Rule] = {}


def rule(id: str, rank: Rank = Rank.CALL) -> Callable[[Diagnose], Diagnose]:
    """Register a function as the rule `family/kind`. The docstring of its file is its documentation."""

    def register(diagnose: Diagnose) -> Diagnose:
        documentation = inspect.getdoc(diagnose) or inspect.getdoc(inspect.getmodule(diagnose)) or ""
        _registered[id] = Rule(id, rank, diagnose, documentation)
        return diagnose

    return register


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the package, those of the lowest rank first."""
    for module in pkgutil.walk_packages(whence.rules.__path__, "whence.rules."):
        import_module(module.name)
    return tuple(sorted(_registered.values(), key=lambda each: (each.rank, each.id)))


def rule_ids() -> tuple[str, ...]:
    return tuple(sorted(each.id for each in all_rules()))
