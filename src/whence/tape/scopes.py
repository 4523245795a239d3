"""Modules as the tape knows them: which one was running, where it was built, and its name."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from whence.source.sites import Site
from whence.tape.tape import storage_of
from whence.torch_internals import BatchNorm, Dropout
from whence.weak_table import WeakTable


@dataclass(eq=False, slots=True)
class Scope:
    """One run of a module's forward. `parent` is the module that called it."""

    ref: weakref.ref[nn.Module]
    kind: str
    parent: Scope | None
    training: bool = True
    built: Site | None = None
    """Where the module was built, if that was while another one was running."""
    called_from: tuple[Site, ...] = ()
    """For an outermost module: the program's lines that called it, innermost first."""
    is_called_directly: bool = False
    """Called by the first of these lines, with no library in between."""

    @property
    def module(self) -> nn.Module | None:
        return self.ref()

    @property
    def root(self) -> Scope:
        """The outermost module that was running."""
        *_, outermost = self.lineage()
        return outermost

    def lineage(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


@dataclass(eq=False, slots=True)
class _Known:
    """What is known of one module."""

    stack: tuple[Site, ...] | None = None
    """The lines that built it; None if it was built before the watch."""
    number: int | None = None
    """Its position in the order in which modules were built."""
    is_root: bool = False
    """It was the outermost module that ran."""


class ModuleBook:
    """What is known of each module. Keeps none alive, and does not call its `__hash__`."""

    def __init__(self) -> None:
        self._known: WeakTable[nn.Module, _Known] = WeakTable()
        self._copies: WeakTable[nn.Module, tuple[Site, ...]] = WeakTable()
        self._copied: WeakTable[torch.Tensor, tuple[Site, ...]] = WeakTable()
        self._inside: dict[Site, int] = {}
        self._registered: WeakTable[torch.Tensor, tuple[Site, ...]] = WeakTable()
        self.count = 0
        """The number of modules built so far."""

    def note_construction(self, module: nn.Module, stack: tuple[Site, ...]) -> None:
        self.count += 1
        known = self._known.setdefault(module, _Known())
        known.stack, known.number = stack, self.count

    def _number_of(self, module: nn.Module) -> int | None:
        known = self._known.get(module, None)
        return known.number if known is not None else None

    def is_older(self, module: nn.Module, count: int) -> bool:
        """Return whether a module is among the first `count` that were built."""
        number = self._number_of(module)
        return number is not None and number <= count

    def built_later(self, module: nn.Module, count: int) -> nn.Module | None:
        """Return the largest part with this module that was built after the first `count` modules.

        None if the module itself is older.
        """
        parents, found = self._parents(), None
        while self._number_of(module) is not None and not self.is_older(module, count):
            found = module
            if id(module) not in parents:
                break
            module = parents[id(module)][0]
        return found

    def note_copy(self, module: nn.Module, original: nn.Module, stack: tuple[Site, ...]) -> None:
        """Note a copy, which counts as built where its original was.

        nn.TransformerEncoder copies the layer that it receives.
        """
        built = self.built_at(original)
        if built:
            self._copies[module] = built
        for weight in module._parameters.values() if stack else ():
            if weight is not None:
                self._copied[weight] = stack

    def copied_at(self, weight: torch.Tensor) -> tuple[Site, ...]:
        """Return where a module with this weight was copied."""
        return self._copied.get(weight, ())

    def note_inside(self, stack: tuple[Site, ...]) -> None:
        """Note a module that was built while another one was running."""
        if stack:
            self._inside[stack[0]] = self._inside.get(stack[0], 0) + 1

    def times_built_inside(self, site: Site) -> int:
        """Return how often a module was built at a place while another one was running."""
        return self._inside.get(site, 0) if self._inside else 0

    def note_registration(self, tensor: torch.Tensor, stack: tuple[Site, ...]) -> None:
        """Note a parameter that was assigned to a module outside of constructors."""
        self._registered[tensor] = stack

    def registered_at(self, tensor: torch.Tensor) -> tuple[Site, ...]:
        return self._registered.get(tensor, ())

    def known(self) -> list[nn.Module]:
        """Return every live module that was built or has run."""
        return self._known.things()

    def note_root(self, module: nn.Module) -> None:
        self._known.setdefault(module, _Known()).is_root = True

    def roots(self) -> list[nn.Module]:
        """Return the live modules that have run as the outermost one."""
        return [each for each in self.known() if self._known[each].is_root]

    def built_at(self, module: nn.Module) -> tuple[Site, ...]:
        known = self._known.get(module, None)
        if known is not None and known.stack is not None:
            return known.stack
        return self._copies.get(module, ())

    def tops(self) -> list[nn.Module]:
        """Return the outermost modules that have run, or the models that contain them.

        A training step may call the parts of a model, and never the model itself.
        """
        parents = self._parents()
        found = (self._above(each, parents)[0] for each in self.roots())
        return list({id(each): each for each in found}.values())

    def path_of(self, module: nn.Module) -> str:
        """Return the module's dotted name within its outermost model, after the model's class."""
        outermost, names = self._above(module, self._parents())
        return ".".join([type(outermost).__name__, *names])

    def _parents(self) -> dict[int, tuple[nn.Module, str]]:
        return {
            id(child): (parent, name)
            for root in self.known()
            for parent in (parts_of(root) if self._known[root].is_root else (root,))
            for name, child in parent._modules.items()
            if child is not None
        }

    def _above(
        self, module: nn.Module, parents: dict[int, tuple[nn.Module, str]]
    ) -> tuple[nn.Module, list[str]]:
        """Return the outermost model that contains a module, and the names leading down to it."""
        names: list[str] = []
        while id(module) in parents and len(names) < 100:
            module, name = parents[id(module)]
            names.insert(0, name)
        return module, names

    def owner_of(self, tensor: torch.Tensor) -> tuple[nn.Module, str] | None:
        """Return the module that registers a tensor as parameter or buffer, and its name there."""
        for module in self.known():
            for name, each in (*module._parameters.items(), *module._buffers.items()):
                if each is tensor:
                    return module, name
        return None

    def name_of(self, tensor: torch.Tensor) -> str:
        """Return a weight's name in a model, `Net.fc1.weight`; empty if no module has it."""
        owner = self.owner_of(tensor)
        return f"{self.path_of(owner[0])}.{owner[1]}" if owner is not None else ""

    def name_of_memory(self, tensor: torch.Tensor) -> str:
        """Return the name of the weight of which this tensor is a view."""
        memory = storage_of(tensor)
        for module in self.known():
            for name, each in module._parameters.items():
                if each is not None and memory and storage_of(each) == memory:
                    return f"{self.path_of(module)}.{name}"
        return ""

    def holder_of(self, tensor: torch.Tensor) -> tuple[nn.Module, str] | None:
        """Return the module that keeps a tensor as a plain attribute.

        Such a tensor is unknown to `parameters()`, `buffers()` and `to()`.
        """
        for module in self.known():
            for name, each in vars(module).items():
                if each is tensor:
                    return module, name
        return None


def parts_of(module: nn.Module) -> Iterator[nn.Module]:
    """Return a module and all its submodules.

    The program may override the module's own `modules` method.
    """
    pending, seen = [module], set[int]()
    while pending:
        each = pending.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            below = vars(each).get("_modules") or {}
            pending += [part for part in reversed(below.values()) if isinstance(part, nn.Module)]


def weights_within(module: nn.Module) -> Iterator[torch.Tensor]:
    """Return the parameters of a module and its submodules, each once."""
    seen = set[int]()
    for part in parts_of(module):
        for each in (vars(part).get("_parameters") or {}).values():
            if each is not None and id(each) not in seen:
                seen.add(id(each))
                yield each


def buffers_within(module: nn.Module) -> Iterator[torch.Tensor]:
    """Return the buffers of a module and its submodules."""
    for part in parts_of(module):
        yield from (
            each for each in (vars(part).get("_buffers") or {}).values() if each is not None
        )


def has_modes(module: nn.Module) -> bool:
    """Return whether training mode changes what a module itself does."""
    if isinstance(module, Dropout):
        return bool(module.p > 0)
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, BatchNorm) and module.track_running_stats
