"""Lines of the user's program: a layer's constructor, a class, the source of an exception."""

from __future__ import annotations

import ast
from typing import Any

from torch import nn

from whence.checking.result import Place
from whence.finding import Finding
from whence.source.classes import assignment_of, class_node, method_of
from whence.source.sites import Site, sites_in
from whence.source.spots import Spot


def place_of_spot(spot: Spot) -> Place:
    return Place(spot.file, spot.line, spot.code)


def place_of_site(site: Site | None) -> Place | None:
    return place_of_spot(Spot.of_site(site)) if site is not None else None


def place_of_finding(finding: Finding) -> Place | None:
    """Convert a site; None if no user line is involved."""
    origin = finding.origin
    return Place(origin.file, origin.line, origin.code) if origin.line else None


def place_of_exception(exception: BaseException) -> Place | None:
    """Return the innermost user line that an exception passed through."""
    return place_of_site(next(iter(sites_in(exception.__traceback__)), None))


def place_of_module(root: nn.Module, path: str) -> Place | None:
    """Find `self.name = ...` that builds the module in the innermost user class; else its class."""
    found: Place | None = None
    module: Any = root
    for name in path.split(".") if path else ():
        found = _attribute(type(module), name) or found
        module = getattr(module, name, None)
        if not isinstance(module, nn.Module):
            return found
    return found or place_of_class(type(module))


def place_of_parameter(root: nn.Module, path: str) -> Place | None:
    """Find where a parameter is made: its line in a user class, else the line of its layer."""
    owner_path, _, name = path.rpartition(".")
    try:
        owner = root.get_submodule(owner_path)
    except AttributeError:
        return None
    return _attribute(type(owner), name) or place_of_module(root, owner_path)


def place_of_class(kind: type) -> Place | None:
    node, filename = class_node(kind)
    return place_of_spot(Spot.of_node(filename, node)) if node is not None else None


def place_of_backward(kind: type) -> Place | None:
    """Find the `return` of a custom Function's backward."""
    method, filename = method_of(kind, "backward")
    if method is None:
        return place_of_class(kind)
    returns = [each for each in ast.walk(method) if isinstance(each, ast.Return)]
    return place_of_spot(Spot.of_node(filename, returns[-1] if returns else method))


def _attribute(kind: type, name: str) -> Place | None:
    found = assignment_of(kind, name)
    return place_of_spot(Spot.of_node(found[1], found[0].node)) if found is not None else None
