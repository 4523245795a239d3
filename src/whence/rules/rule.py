"""What a rule is, and how rules are registered and listed."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import whence.rules
from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.study import Study
from whence.tape.failed import FailedCall
from whence.tape.tape import Call
from whence.tape.trip import Trip

Diagnose = Callable[[FailedCall], Finding | None]
Notice = Callable[[Call], Finding | None]
Examine = Callable[[Trip], Finding | None]
Inspect = Callable[[Study], Finding | None]
Review = Callable[[Audit], Finding | None]
Ask = TypeVar("Ask", bound=Callable[..., Finding | None])


class Rank(IntEnum):
    """The order in which rules run: upstream causes, the call that raised, general rules.

    WHOLE runs before all of them, for rules that run the others; PLACE runs last, for rules that
    know only the location.
    """

    WHOLE = -1
    CAUSE = 0
    CALL = 1
    GENERAL = 2
    PLACE = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its checks.

    It checks calls that raised (diagnose), calls that succeeded (notice), NaN and Inf (examine), a
    recorded pass before its update (inspect), or the ledgers (review).
    """

    id: str
    rank: Rank
    documentation: str
    diagnose: Diagnose | None = None
    notice: Notice | None = None
    examine: Examine | None = None
    inspect: Inspect | None = None
    review: Review | None = None

    @property
    def family(self) -> str:
        return self.id.split("/")[0]

    @property
    def summary(self) -> str:
        return self.documentation.splitlines()[0]


QUESTIONS = {
    "diagnose": b"\n@rule(",
    "notice": b"\n@call_rule(",
    "examine": b"\n@trip_rule(",
    "inspect": b"\n@study_rule(",
    "review": b"\n@audit_rule(",
}
"""What rules are asked, each with how a file shows that it has a rule for it."""
_registered: dict[str, Rule] = {}


def rule(id: str, rank: Rank = Rank.CALL) -> Callable[[Diagnose], Diagnose]:
    """Register a function as the rule `family/kind` for calls that raised.

    The rule's documentation is the function's docstring, or the file's if the function has none.
    """
    return lambda diagnose: _register(id, rank, diagnose, diagnose=diagnose)


def call_rule(id: str) -> Callable[[Notice], Notice]:
    """Register a rule for calls that succeeded. It runs for every recorded call: keep it fast."""
    return lambda notice: _register(id, Rank.GENERAL, notice, notice=notice)


def trip_rule(id: str, rank: Rank = Rank.CALL) -> Callable[[Examine], Examine]:
    """Register a rule for NaN and Inf, which runs when one reaches a loss or a gradient."""
    return lambda examine: _register(id, rank, examine, examine=examine)


def study_rule(id: str, rank: Rank = Rank.CALL) -> Callable[[Inspect], Inspect]:
    """Register a rule for recorded passes, which runs just before their gradients are used."""
    return lambda inspect: _register(id, rank, inspect, inspect=inspect)


def audit_rule(id: str, rank: Rank = Rank.CALL) -> Callable[[Review], Review]:
    """Register a rule for the ledgers, which runs after some steps and at the end."""
    return lambda review: _register(id, rank, review, review=review)


def _register(id: str, rank: Rank, function: Ask, **asked: Any) -> Ask:
    known = _registered.get(id)
    if known is None:
        _registered[id] = Rule(id, rank, _documentation(function), **asked)
    else:
        if any(getattr(known, each) is not None for each in asked):
            raise ValueError(f"{id} has two functions of the same kind")
        # A rule with a loud and a silent form keeps the longer documentation.
        documentation = max(known.documentation, _documentation(function), key=len)
        rank = rank if "diagnose" in asked or known.diagnose is None else known.rank
        _registered[id] = replace(known, rank=rank, documentation=documentation, **asked)
    return function


def _documentation(function: Callable[..., object]) -> str:
    return inspect.getdoc(function) or inspect.getdoc(inspect.getmodule(function)) or ""


@cache
def _files() -> dict[str, list[str]]:
    """The modules of the package, by the questions whose rules they have."""
    found: dict[str, list[str]] = {each: [] for each in QUESTIONS}
    for module in pkgutil.walk_packages(whence.rules.__path__, "whence.rules."):
        spec = module.module_finder.find_spec(module.name, None)
        assert spec is not None
        text = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]
        for question, decorator in QUESTIONS.items():
            if decorator in text:
                found[question].append(module.name)
    return found


@cache
def _rules_for(question: str) -> tuple[Rule, ...]:
    """The rules for one question, lowest rank first.

    Only their files are loaded: importing rules that a healthy program never needs would be most
    of its cost.
    """
    for name in _files()[question]:
        import_module(name)
    found = [each for each in _registered.values() if getattr(each, question) is not None]
    return tuple(sorted(found, key=lambda each: (each.rank, each.id)))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the package, lowest rank first."""
    for question in QUESTIONS:
        _rules_for(question)
    return tuple(sorted(_registered.values(), key=lambda each: (each.rank, each.id)))


@cache
def call_rules() -> tuple[Notice, ...]:
    return tuple(each.notice for each in _rules_for("notice") if each.notice is not None)


@cache
def trip_rules() -> tuple[Examine, ...]:
    return tuple(each.examine for each in _rules_for("examine") if each.examine is not None)


@cache
def study_rules() -> tuple[tuple[str, Inspect], ...]:
    return tuple(
        (each.id, each.inspect) for each in _rules_for("inspect") if each.inspect is not None
    )


@cache
def audit_rules() -> tuple[tuple[str, Review], ...]:
    return tuple((each.id, each.review) for each in _rules_for("review") if each.review is not None)


def rule_ids() -> tuple[str, ...]:
    return tuple(sorted(each.id for each in all_rules()))
