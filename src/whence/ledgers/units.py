"""The ledger of units: which ever fire, which sit where they are flat, and how gradients change with depth."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from whence.ledgers.study import Study
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.scopes import Scope
from whence.tape.tape import Call

RELUS = frozenset({"relu", "relu_", "relu6"})
FLAT = {"tanh": (-0.995, 0.995), "sigmoid": (0.005, 0.995)}


@dataclass(eq=False, slots=True)
class UnitEntry:
    """The units that one call makes."""

    name: str
    spot: Spot
    """The layer that feeds them: where it was built, or where it is called."""
    layer: str
    looks: int = 0
    samples: int = 0
    fired: torch.Tensor | None = None
    flat: list[float] = field(default_factory=list)
    """The share of elements beyond the bend, at each look."""


def _initialised(study: Study, module: nn.Module, built: Site) -> Site:
    """Where the program itself has set the layer's weights, after it was built; else where it was built."""
    own = {id(each) for each in module.parameters(recurse=False)}
    for call in reversed(study.tape.calls):
        early = call.phase == "program" and call.step == 0 and call.changed and call.site is not None
        if early and call.site != built and any(id(each.tensor) in own for each in call.outputs):
            return call.site or built
    return built


class UnitLedger:
    """Filled by looks at a few recorded passes, some steps apart."""

    def __init__(self) -> None:
        self.entries: dict[tuple[object, str], UnitEntry] = {}
        self.depths: list[list[tuple[str, float, Spot | None]]] = []
        """At each look, for weights in their order: name, mean size of the gradient, where the layer was built."""

    def look(self, study: Study) -> None:
        for _, call in study.loss_calls():
            if (call.name in RELUS or call.name in FLAT) and call.outputs and call.operands:
                content = study.content(call.outputs[0])
                if content is not None and content.dim() > 1:
                    self._enter(study, call, content.detach())
        self._gradients(study)

    def _enter(self, study: Study, call: Call, content: torch.Tensor) -> None:
        scope = call.module if isinstance(call.module, Scope) else None
        feeding = call.operands[0].call
        layer = feeding.module if feeding is not None and isinstance(feeding.module, Scope) else None
        module = layer.module if layer is not None else None
        stack = study.modules.built_at(module) if module is not None else ()
        site = _initialised(study, module, stack[0]) if module is not None and stack else call.site
        if site is None:
            return
        key = (site, study.modules.path_of(module) if module is not None else str(scope.kind if scope else ""))
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = UnitEntry(call.name, Spot.of_site(site), key[1])
        entry.looks += 1
        entry.samples += content.shape[0]
        if call.name in RELUS:
            axes = [axis for axis in range(content.dim()) if axis != 1]
            fired = (content > 0).sum(axes) > 0
            known = entry.fired
            entry.fired = fired if known is None or known.shape != fired.shape else known | fired
        else:
            low, high = FLAT[call.name]
            entry.flat.append(float(((content < low) | (content > high)).float().mean()))

    def _gradients(self, study: Study) -> None:
        sizes: list[tuple[str, float, Spot | None]] = []
        for group in study.optimizer.param_groups:
            for weight in group["params"]:
                if weight.dim() > 1 and weight.grad is not None and not weight.grad.is_sparse:
                    owner = study.modules.owner_of(weight)
                    stack = study.modules.built_at(owner[0]) if owner is not None else ()
                    name = study.modules.name_of(weight)
                    sizes.append((name, float(weight.grad.abs().mean()), Spot.of_site(stack[0]) if stack else None))
        self.depths.append(sizes)
