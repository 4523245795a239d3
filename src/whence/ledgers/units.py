"""The ledger of units: which fire, which saturate, and how gradients change with depth."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from whence.ledgers.alike import Alike, made_alike, without_dropout
from whence.ledgers.draws import DRAWS
from whence.ledgers.study import Study
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.finite import all_finite
from whence.tape.native import run_native
from whence.tape.operations import NORMS, OVER_TIME
from whence.tape.replay import Run, is_weight, leaving_no_trace
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value, flatten, map_leaves, storage_of

RELUS = frozenset({"relu", "relu_", "relu6"})
DEEP = 4
LOSSES = frozenset(
    {"cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss",
     "l1_loss", "smooth_l1_loss", "huber_loss"}
)  # fmt: skip
FLAT = {"tanh": (-0.995, 0.995), "sigmoid": (0.005, 0.995)}
CONSTANT = 0.01
"""The share of the targets' spread below which predictions count as constant."""
FEWEST = 8
"""The number of predictions needed to measure their spread."""
MOST_SCORES = 2**24
"""With more scores only a subset of rows is read, since a vocabulary's would be copied whole."""
LATE = 4
SUSPECT = 10.0
"""The estimated growth of gradients above which the loss is differentiated to measure it."""
MOST_BEFORE = 24
"""Calls inspected backwards from an activation."""


@dataclass(eq=False, slots=True)
class UnitEntry:
    """The units of one activation call."""

    name: str
    spot: Spot
    """The layer that feeds them: where it was built, or where it is called."""
    layer: str
    looks: int = 0
    samples: int = 0
    fired: torch.Tensor | None = None
    flat: list[float] = field(default_factory=list)
    """The share of saturated elements, at each check."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of gradients from the last layer to the first, and the layers in between."""

    factor: float
    size: float
    """The size of the gradient at the first layer."""
    through: str
    spot: Spot


def _initialised(study: Study, module: nn.Module, built: Site, only_matrices: bool = False) -> Site:
    """Where the program itself initialized the layer's weights; otherwise where it was built."""
    own = {
        id(each)
        for each in nn.Module.parameters(module, recurse=False)
        if each.dim() > 1 or not only_matrices
    }
    for call in reversed(study.tape.calls):
        early = (
            call.phase == "program" and call.step == 0 and call.changed and call.site is not None
        )
        if early and call.site != built and any(id(each.tensor) in own for each in call.outputs):
            return call.site or built
    return built


def _spread(call: Call, given: torch.Tensor | None, target: torch.Tensor | None) -> float | None:
    if (
        given is None
        or target is None
        or given.dim() < 1
        or len(given) < FEWEST
        or len(given) != len(target)
    ):
        return None
    if call.name == "cross_entropy" and given.dim() > 1 and not target.is_floating_point():
        return _class_spread(given.detach(), target.detach(), call.kwargs.get("ignore_index", -100))
    given, target = given.detach().float(), target.detach().float()
    if call.name == "cross_entropy" and given.dim() > 1:
        given = given.softmax(1)
    wanted = float(target.std(0).mean())
    return float(given.std(0).mean()) / wanted if wanted > 0 else None


def _class_spread(scores: torch.Tensor, labels: torch.Tensor, ignored: int) -> float | None:
    """The spread of class scores relative to one-hot labels, since ids are not distances."""
    classes = scores.shape[1]
    rows, labels = scores.movedim(1, -1).reshape(-1, classes), labels.reshape(-1)
    every = -(-rows.numel() // MOST_SCORES)
    rows, labels = rows[::every], labels[::every]
    counted = (labels >= 0) & (labels < classes) & (labels != ignored)
    rows, labels = rows[counted], labels[counted]
    if len(rows) < FEWEST:
        return None
    shares = torch.bincount(labels.long(), minlength=classes) / len(rows)
    wanted = float((shares * (1 - shares)).sqrt().mean())
    return float(rows.float().softmax(1).std(0).mean()) / wanted if wanted > 0 else None


@dataclass(eq=False, slots=True)
class Backward:
    """The gradients in the layers of a replayed pass."""

    layers: list[Call]
    """From the last layer to the first."""
    sources: set[Value]
    """The results of the first layers; calls before them have no part in the gradients."""
    last_norm: int
    """The number of the last call that normalizes.

    Before it the scale of a result is divided out: a smaller result has a larger gradient, with no
    other effect.
    """
    sizes: dict[Call, float] = field(default_factory=dict)
    """Gradient sizes, as if all results that are normalized later had size one."""
    recurrent: dict[Call, torch.Tensor] = field(default_factory=dict)

    def expect(self, call: Call, run: Run) -> None:
        made = run.contents.get(call.outputs[0]) if call in self.layers else None
        if made is not None and made.requires_grad:
            scale = (
                float(made.detach().square().mean().sqrt()) if call.number < self.last_norm else 1.0
            )
            note = functools.partial(self._note, call, scale)
            made.register_hook(note)  # type: ignore[no-untyped-call]

    def _note(self, call: Call, scale: float, gradient: torch.Tensor | None) -> None:
        if gradient is None:
            # A custom Function may return no gradient.
            return
        self.sizes[call] = scale * float(gradient.norm())
        if call.name in OVER_TIME:
            self.recurrent[call] = gradient

    def growth(self, study: Study, run: Run) -> Growth | None:
        """The growth from the last layer to the first, or through time in one recurrent layer."""
        loss = run.contents.get(study.losses[0].value) if study.losses else None
        sources = [run.contents[each] for each in self.sources if each in run.contents]
        if loss is None or not loss.requires_grad or not sources:
            return None
        try:
            torch.autograd.grad(loss.sum(), sources, allow_unused=True)
        except RuntimeError:
            return None
        found = [
            _through_time(study, run, call, gradient) for call, gradient in self.recurrent.items()
        ]
        known = [(call, self.sizes[call]) for call in self.layers if call in self.sizes]
        if len(known) >= DEEP and known[0][1] > 0:
            found.append(
                _grown(
                    study,
                    known[-1][1],
                    known[0][1],
                    f"{len(known)} layers",
                    [call for call, _ in known],
                )
            )
        return max(
            (each for each in found if each is not None), key=lambda each: each.factor, default=None
        )


def _coarse_graph(study: Study) -> torch.autograd.graph.saved_tensors_hooks:
    """A graph that saves results in half precision: only the sizes of gradients are needed."""
    weights = {storage_of(each) for each in study.now.held.values()}

    def pack(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        halves = tensor.dtype is torch.float32 and storage_of(tensor) not in weights
        return (tensor.detach().bfloat16() if halves else tensor), tensor.dtype

    def unpack(packed: tuple[torch.Tensor, torch.dtype]) -> torch.Tensor:
        return packed[0].to(packed[1])

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def _chain(study: Study) -> list[Call]:
    """The layers that lead to the one nearest the loss, that first.

    A second pass through the model is a separate chain.
    """
    last = next((call for _, call in study.loss_calls() if _is_layer(call)), None)
    return (
        [call for call in reversed(study.path(last.outputs[0])) if _is_layer(call)]
        if last is not None
        else []
    )


def _sources(study: Study, layers: list[Call]) -> set[Value]:
    """The results of the layers that depend on no other layer."""
    reached: set[int] = set()
    found: set[Value] = set()
    for call in study.calls:
        led_to = any(id(each) in reached for each in call.operands)
        if call in layers and not led_to:
            found.add(call.outputs[0])
        if led_to or call in layers:
            reached |= {id(each) for each in call.outputs}
    return found


def _is_layer(call: Call) -> bool:
    """Whether a call has a weight matrix among its operands."""
    return bool(call.outputs) and any(
        is_weight(each) and len(each.shape) > 1 for each in call.operands
    )


def _gradient_size(call: Call, run: Run) -> float:
    """Estimate the size of the gradient of a layer's result from the gradient of its weights.

    The gradient of the weights is the product of that gradient and the layer's input.
    """
    left = [
        each.tensor.grad
        for each in call.operands
        if is_weight(each) and len(each.shape) > 1 and each.tensor is not None
    ]
    dense = [each for each in left if each is not None and not each.is_sparse]
    given = next(
        (
            run.contents[each]
            for each in call.operands
            if each in run.contents and not is_weight(each)
        ),
        None,
    )
    if given is None or not dense:
        return 0.0
    size = float(given.norm()) if given.is_floating_point() else math.sqrt(given.numel())
    return math.hypot(*(float(each.norm()) for each in dense)) / size if size else 0.0


def _growth(study: Study, layers: list[Call]) -> Growth | None:
    """Replay the pass with a graph, and differentiate the loss by the layers' results."""
    norms = (call.number for call in study.path(layers[0].outputs[0]) if call.name in NORMS)
    backward = Backward(layers, _sources(study, layers), max(norms, default=0))
    wanted = {each.value for each in study.losses} | backward.sources
    for call in layers:
        wanted |= {each for each in call.operands if call.name in OVER_TIME or is_weight(each)}
    coarse = _coarse_graph(study)
    run = study.again(
        *wanted, gradients=True, towards=backward.sources, amend=backward.expect, during=coarse
    )
    return backward.growth(study, run) if run is not None else None


def _through_time(study: Study, run: Run, call: Call, gradient: torch.Tensor) -> Growth | None:
    """How much more the first step of a sequence moves the loss than the last one."""
    given = run.contents.get(call.operands[0])
    if given is None or given.dim() != 3:
        return None
    given = given.detach().clone().requires_grad_()
    contents = {**run.contents, call.operands[0]: given}

    def argument(thing: Any) -> Any:
        return contents[thing] if isinstance(thing, Value) else thing

    with leaving_no_trace():
        try:
            result = run_native(
                call.func, map_leaves(argument, call.args), map_leaves(argument, call.kwargs)
            )
            (back,) = torch.autograd.grad(next(iter(flatten(result))), [given], gradient)
        except (RuntimeError, KeyError, TypeError):
            return None
    axis = 1 if call.args and call.args[-1] is True else 0
    sizes = back.movedim(axis, 0).flatten(1).norm(dim=1)
    last = float(sizes[-1])
    return (
        _grown(study, float(sizes[0]), last, f"{len(sizes)} time steps", [call])
        if last > 0
        else None
    )


def _grown(
    study: Study, first: float, last: float, through: str, calls: list[Call]
) -> Growth | None:
    """The growth, at the place where most of the layers in between got their weights."""
    places: list[Site] = []
    for call in calls:
        module = study.layer_of(call)
        stack = study.modules.built_at(module) if module is not None else ()
        if module is not None and stack:
            places.append(_initialised(study, module, stack[0], only_matrices=True))
    if not places:
        return None
    return Growth(first / last, first, through, Spot.of_site(max(places, key=places.count)))


def _is_sound(study: Study) -> bool:
    """Whether the losses and the weights are finite.

    A loss may be finite because it selects values that are not affected.
    """
    weights = [each for each in study.now.held.values() if each.requires_grad and each.is_leaf]
    return all(
        each.number is None or math.isfinite(each.number) for each in study.losses
    ) and all_finite(weights)


class UnitLedger:
    """Filled by checks of a few recorded passes, some steps apart."""

    def __init__(self) -> None:
        self.entries: dict[tuple[object, str], UnitEntry] = {}
        self.depths: list[list[tuple[str, float, Spot | None]]] = []
        """For the weights at each check: name, mean gradient size, where the layer was built."""
        self.growth: list[Growth] = []
        self.spreads: dict[Spot, list[float]] = {}
        """For each loss and check: the spread of predictions relative to that of the targets."""
        self.last = 0
        """The step of the last check."""
        self.alike: dict[Spot, Alike] = {}
        """For a loss with constant predictions: the call that made the samples identical."""

    def spans(self, steps: int) -> bool:
        """Whether the checks reach far enough into a run of this many steps to describe it."""
        return LATE * self.last >= steps

    def look(self, study: Study) -> None:
        """Replay the pass once without a graph, inspecting units as they are computed."""
        if not _is_sound(study):
            # Nothing fires on NaN, and a non-finite value is reported elsewhere.
            return
        self.last = study.step
        self._gradients(study)
        layers = _chain(study)
        units = {
            id(call) for _, call in study.loss_calls() if call.name in RELUS or call.name in FLAT
        }
        losses = [
            call for _, call in study.loss_calls() if call.name in LOSSES and len(call.operands) > 1
        ]
        wanted = {each.value for each in study.losses} | {
            each for call in losses for each in call.operands[:2]
        }
        sizes: dict[Call, float] = {}

        def amend(call: Call, run: Run) -> None:
            without_dropout(call, run)
            if call in layers:
                sizes[call] = _gradient_size(call, run)
            if id(call) in units and call.outputs and call.operands:
                content = run.contents.get(call.outputs[0])
                if content is not None and content.dim() > 1:
                    self._enter(study, call, content.detach())

        run = (
            study.again(*wanted, gradients=False, amend=amend)
            if units or losses or layers
            else None
        )
        if run is None:
            return
        self._predictions(study, losses, run)
        last = next((sizes[call] for call in layers if sizes.get(call)), 0.0)
        growth = _growth(study, layers) if last and max(sizes.values()) > SUSPECT * last else None
        if growth is not None:
            self.growth.append(growth)

    def _predictions(self, study: Study, losses: list[Call], run: Run) -> None:
        for call in losses:
            spread = _spread(call, *(run.contents.get(each) for each in call.operands[:2]))
            if spread is None or call.site is None:
                continue
            spot = Spot.of_site(call.site)
            self.spreads.setdefault(spot, []).append(spread)
            self.alike.pop(spot, None)
            if spread <= CONSTANT and (made := made_alike(study, call.operands[0])) is not None:
                self.alike[spot] = made

    def _enter(self, study: Study, call: Call, content: torch.Tensor) -> None:
        scope = call.module if isinstance(call.module, Scope) else None
        feeding = call.operands[0].call
        layer = (
            feeding.module if feeding is not None and isinstance(feeding.module, Scope) else None
        )
        module = layer.module if layer is not None else None
        stack = study.modules.built_at(module) if module is not None else ()
        site = _initialised(study, module, stack[0]) if module is not None and stack else call.site
        if site is None:
            return
        key = (
            site,
            study.modules.path_of(module)
            if module is not None
            else str(scope.kind if scope else ""),
        )
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
        elif not _is_drawn(call):
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
                    sizes.append(
                        (
                            name,
                            float(weight.grad.abs().mean()),
                            Spot.of_site(stack[0]) if stack else None,
                        )
                    )
        self.depths.append(sizes)


def _is_drawn(call: Call) -> bool:
    """Whether the input is elementwise noise.

    Relaxed samples (Gumbel, concrete) should saturate.
    """
    pending, shape = [*call.operands[:1]], call.outputs[0].shape
    for _ in range(MOST_BEFORE):
        made = pending.pop(0).call if pending else None
        if made is None or any(is_weight(each) and len(each.shape) > 1 for each in made.operands):
            continue
        if made.name in DRAWS:
            return True
        pending += [each for each in made.operands if each.shape == shape]
    return False
