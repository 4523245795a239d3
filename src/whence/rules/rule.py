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
from whence.tape.tape import Call
from whence.tape.trip import Trip

Diagnose = Callable[[FailedCall], Finding | None]
Notice = Callable[[Call], Finding | None]
Examine = Callable[[Trip], Finding | None]


class Rank(IntEnum):
    """Who is asked first: a cause upstream explains more than the call that raised, and that more than a general rule."""

    CAUSE = 0
    CALL = 1
    GENERAL = 2


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule looks at calls that raised, at calls that went well, or at what is not finite."""

    id: str
    rank: Rank
    documentation: str
    diagnose: Diagnose | None = None
    notice: Notice | None = None
    examine: Examine | None = None

    @property
    def family(self) -> str:
        return self.id.split("/")[0]

    @property
    def summary(self) -> str:
        return self.documentation.splitlines()[0]


_registered: dict[str, Rule] = {}


def rule(id: str, rank: Rank = Rank.CALL) -> Callable[[Diagnose], Diagnose]:
    """Register a function as the rule `family/kind` for calls that raised.

    The function's docstring is the rule's documentation; that of its file, where the function has none.
    """

    def register(diagnose: Diagnose) -> Diagnose:
        _registered[id] = Rule(id, rank, _documentation(diagnose), diagnose=diagnose)
        return diagnose

    return register


def call_rule(id: str) -> Callable[[Notice], Notice]:
    """Register a function as a rule for calls that went well. It is asked for every recorded call: it must be quick."""

    def register(notice: Notice) -> Notice:
        _registered[id] = Rule(id, Rank.GENERAL, _documentation(notice), notice=notice)
        return notice

    return register


def trip_rule(id: str, rank: Rank = Rank.CALL) -> Callable[[Examine], Examine]:
    """Register a function as a rule for NaN and Inf: it is asked when something not finite reached a loss or a gradient."""

    def register(examine: Examine) -> Examine:
        _registered[id] = Rule(id, rank, _documentation(examine), examine=examine)
        return examine

    return register


def _documentation(function: Callable[..., object]) -> str:
    return inspect.getdoc(function) or inspect.getdoc(inspect.getmodule(function)) or ""


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the package, those of the lowest rank first."""
    for module in pkgutil.walk_packages(whence.rules.__path__, "whence.rules."):
        import_module(module.name)
    return tuple(sorted(_registered.values(), key=lambda each: (each.rank, each.id)))


@cache
def call_rules() -> tuple[Notice, ...]:
    return tuple(each.notice for each in all_rules() if each.notice is not None)


@cache
def trip_rules() -> tuple[Examine, ...]:
    return tuple(each.examine for each in all_rules() if each.examine is not None)


def rule_ids() -> tuple[str, ...]:
    return tuple(sorted(each.id for each in all_rules()))
