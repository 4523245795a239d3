"""Inputs paired with the labels of other samples: in files, in a batch, in memory."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from types import FrameType

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.ledgers.labels import Stream
from whence.lineage.datasets.habits import places_of
from whence.lineage.datasets.preparing import innermost
from whence.lineage.datasets.sheets import mixed_up
from whence.lineage.datasets.windows import Within, line_that_makes
from whence.lineage.loops.feeding import Place, functions_of
from whence.lineage.loops.orders import Manner
from whence.lineage.loops.pairings import (
    attributes_of_self,
    constructed,
    given_to,
    indexed_together,
    inside,
    outside,
    pairings_in,
    returned,
    scopes_in,
    without_common_index,
)
from whence.lineage.loops.reordering import Apart, apart
from whence.lineage.postmortem import evaluated
from whence.lineage.rerunning import run_again
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.data.keys import Paired, compared_on_tape, misaligned_keys
from whence.rules.data.rows import Compared, held_together, misaligned_rows
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
from whence.source.classes import assignment_of, attribute_of, class_node, method_of
from whence.source.definitions import own_nodes, parameter_names
from whence.source.sites import Site, variables
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, last_name, statement_of, tree_of

ENOUGH_STEPS = 6
ENOUGH_SAMPLES = 16
DEEPEST = 8
PATIENCE = 5.0
MOST_SEEN = 64
FAIR_SHARE = 0.25
"""Required effect on the loss, relative to the window's other values; a mean has less."""


@audit_rule("data/misaligned", Rank.CALL)
def misaligned(audit: Audit) -> Finding | None:
    """Inputs and labels do not belong together.

    What happened
        One of two paired sequences was reordered or lost elements, and the other was not: two file
        listings, inputs that a collate function sorts by length, an array that was shuffled alone.
        Or both were built key by key, in two orders of the keys. Or a target is one of the values
        in its own input window.
    Why it matters
        Inputs get the labels of other samples, and the model learns the mean of the labels.
    How it is detected
        Files: the names of the files read for a sample have numbers or stems in common with those
        of other samples. Label tables: a table beside the files gives another label for a file.
        Batches: a batch is collated again from its samples in a child process, and their parts are
        located in it. Memory: the preparation before training runs again in a child process; the
        inputs are rows of a table that has other labels for them, or the keys that both were built
        from are the same in another order. Otherwise, the source: one of two paired sequences is
        shuffled, sorted or filtered alone. Windows: neighbouring samples slide over one series, the
        target is at the same position of each input, and a replay shows that the loss depends on
        that position.
    How to fix it
        Sort both listings in the same way, or derive one name from the other. Sort and filter
        pairs; index both with one permutation.
    When it stays silent
        Files whose names do not correspond at all, samples from a single file. Labels alone in a
        random order, which is a deliberate experiment. Sequences that are not labels.
    Cost
        A child process and a few samples, once per run; a replay of a recorded step; another child
        process of a few seconds at most, if no linear model separates the labels.
    """
    for entry in audit.batches.trained():
        found = (
            _files(audit, entry)
            or _sheet(audit, entry)
            or _collated(audit, entry)
            or _within(audit, entry)
        )
        if found is not None:
            return found
    return _in_memory(audit)


def _files(audit: Audit, entry: LoaderEntry) -> Finding | None:
    habits = audit.habits_of(entry)
    pairs = [each[:2] for each in habits.files if len(each) >= 2] if habits is not None else []
    if (
        habits is None
        or len(pairs) < 2
        or any(_folder(one) == _folder(other) for one, other in pairs)
    ):
        return None
    stems = [tuple(_number(path) for path in pair) for pair in pairs]
    wrong = [
        (pair, stem)
        for pair, stem in zip(pairs, stems, strict=True)
        if None not in stem and stem[0] != stem[1]
    ]
    if len(wrong) < 2 or not _correspond(pairs[0]):
        return None
    one, other = wrong[0][0]
    return silent_finding(
        audit,
        "data/misaligned",
        spot=_listing(entry.info.dataset, one, other) or entry.info.built,
        symptom=entry.info.built,
        step=audit.step,
        phase="data",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{os.path.basename(one)} is paired with {os.path.basename(other)}",
        what=f"in {len(wrong)} of {len(pairs)} samples the names of the two files do not match",
        why="The two file listings are in different orders; sorted as text, 10 comes before 2.",
        fix="Sort both listings in the same way, or derive the second name from the first.",
    )


def _sheet(audit: Audit, entry: LoaderEntry) -> Finding | None:
    """Labels in the row order of a table, paired with files in another order."""
    delivered = _delivered(entry) if not entry.was_compared else {}
    if len(delivered) < ENOUGH_SAMPLES:
        return None
    entry.was_compared = True
    dataset = innermost(entry.info.dataset)
    mixed = mixed_up(dataset, delivered)
    if mixed is None:
        return None
    name, sheet = os.path.basename(mixed.file), os.path.basename(mixed.sheet)
    return silent_finding(
        audit,
        "data/misaligned",
        spot=attribute_of(type(dataset), mixed.attribute) or entry.info.built,
        symptom=entry.info.built,
        step=audit.step,
        phase="data",
        verdict=f"{name} has the label {mixed.label!r}, but {sheet} gives it {mixed.told}",
        what=f"{mixed.wrong} of {mixed.size} files have the label of another file",
        why=f"The labels follow the row order of {sheet}, the files do not; sorted as text, 10 "
        "comes before 2.",
        fix=f"Take each file name from its row in {sheet}, or look the label up by file name.",
        counterfactual=f"{sheet} was read: the dataset's labels match it row by row, but not file "
        "by file",
    )


def _delivered(entry: LoaderEntry) -> dict[int, float]:
    """The labels of delivered samples, by their index in the innermost dataset."""
    for epoch in entry.epochs:
        labels = [each for batch in epoch.labels for each in batch.tolist()]
        if labels and len(labels) == len(epoch.marks):
            places = [list(places_of(entry.info.dataset, each))[-1] for each in epoch.marks]
            return {
                place: label
                for place, label in zip(places, labels, strict=True)
                if isinstance(place, int)
            }
    return {}


def _collated(audit: Audit, entry: LoaderEntry) -> Finding | None:
    parting = audit.parting_of(entry)
    if parting is None:
        return None
    return silent_finding(
        audit,
        "data/misaligned",
        spot=parting.spot or entry.info.built,
        symptom=entry.info.built,
        step=audit.step,
        phase="data",
        verdict=f"the batch pairs {parting.wrong} of {parting.size} samples with the "
        f"{_part(parting.kept)} of another sample",
        what=f"{_part(parting.moved)} is in another order than {_part(parting.kept)}",
        why="The collate function reorders one part of the samples and keeps the order of the "
        "other.",
        fix="Sort the samples before they are split into parts, so that both parts share one "
        "order.",
        counterfactual="the samples of a batch were fetched one by one in a child process and "
        "located in the batch",
    )


def _within(audit: Audit, entry: LoaderEntry) -> Finding | None:
    """A target that is inside its own input window."""
    within = audit.within_of(entry)
    if within is None or not _is_shown(entry, within):
        return None
    return silent_finding(
        audit,
        "data/misaligned",
        spot=within.spot or _made(audit, within) or entry.info.built,
        symptom=entry.info.built,
        step=audit.step,
        phase="data",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"the target is in the input: {_part(within.target)} is value {within.place} of "
        f"the {within.length} in {_part(within.window)}",
        what="each sample is a window of a series with its own target",
        why="A model that receives the answer learns to copy it, and fails when the answer is not "
        "in the input.",
        fix=f"Take the value after the window, index {within.length} counted from its start, as "
        "the target.",
        counterfactual="neighbouring samples were compared, and the target is at this position in "
        "all of them; in a replay the loss depends on it",
    )


def _made(audit: Audit, within: Within) -> Spot | None:
    """Where the targets of a dataset that only passes them on were created."""
    try:
        return run_in_child(
            lambda: line_that_makes(within, audit.frames), PATIENCE, need=Need.PREPARATION
        )
    except NotPossible:
        return None


def _is_shown(entry: LoaderEntry, within: Within) -> bool:
    """Whether the loss depends on the target's position in the window; many programs mask it."""
    reached = entry.reached
    if reached is None or tuple(reached.shape) != within.shape:
        return False
    others = torch.ones(reached.numel(), dtype=torch.bool)
    others[list(within.at)] = False
    by_target, by_others = reached.reshape(-1)[~others], reached.reshape(-1)[others]
    return float(by_target.min()) > FAIR_SHARE * float(by_others.mean())


def _part(name: str) -> str:
    return f"element {name}" if name.isdigit() else name.strip("'")


def _folder(path: str) -> str:
    return os.path.dirname(path)


def _number(path: str) -> str | None:
    found = re.findall(r"\d+", os.path.splitext(os.path.basename(path))[0])
    return str(int(found[-1])) if found else None


def _correspond(pair: list[str]) -> bool:
    """Whether both folders have files with the same numbers."""
    try:
        one, other = ({_number(each) for each in os.listdir(_folder(path) or ".")} for path in pair)
    except OSError:
        return False
    return len(one & other) > 0.8 * max(len(one), len(other))


def _listing(dataset: object, *paths: str) -> Spot | None:
    """Where the unordered listing is created."""
    lists = {
        name: list(map(str, thing))
        for name, thing in (vars(dataset).items() if hasattr(dataset, "__dict__") else ())
        if isinstance(thing, list | tuple)
        and any(_is_of(path, str(each)) for each in thing for path in paths)
    }
    for name, thing in lists.items():
        numbers = [int(number) for each in thing if (number := _number(each)) is not None]
        if numbers != sorted(numbers):
            return attribute_of(type(dataset), name)
    return attribute_of(type(dataset), next(iter(lists))) if lists else None


def _is_of(path: str, listed: str) -> bool:
    """Whether a path is listed, or is a file of a listed name in some folder."""
    return bool(listed) and (path == listed or path.endswith(os.sep + listed))


def _in_memory(audit: Audit) -> Finding | None:
    """The program's own lines: one of two paired sequences was reordered alone."""
    streams = [
        each
        for each in audit.labels.streams.values()
        if len({x for batch in each.batches for x in batch}) > 1
    ]
    trained = list(audit.batches.trained())
    has_classes = bool(streams) or any(epoch.labels for each in trained for epoch in each.epochs)
    held = list(held_together(audit, _pairs_at(streams)))
    if audit.labels.compared or audit.step < ENOUGH_STEPS or not (streams or trained or held):
        return None
    audit.labels.compared = True
    if (by_rows := misaligned_rows(audit, trained, held)) is not None:
        return by_rows
    stacks = [*(each.stack for each in streams), *(each.info.stack for each in trained)]
    known = dict.fromkeys(kind for each in trained for kind in _kinds(each.info.dataset))
    kinds = [each for each in known if class_node(each)[0] is not None]
    files = dict.fromkeys(
        [site.filename for stack in stacks for site in stack]
        + [class_node(each)[1] for each in kinds]
    )
    together = {each.__name__: _parameters(each) for each in kinds}
    together |= dict(_trainers(streams))
    paired = chain(compared_on_tape(audit), _paired(streams, kinds, list(files), together))
    if (
        by_keys := misaligned_keys(audit, paired, trained[0].info.built if trained else None)
    ) is not None:
        return by_keys
    for found, filename in (
        *_at_losses(streams),
        *_in_datasets(kinds),
        *_in_files(list(files), together, stacks),
    ):
        if found is None or (found.change.manner is not Manner.FILTERED and not has_classes):
            # Numbers may not be labels, but filtering one of two paired sequences is always wrong.
            continue
        if _may_be_unpaired(found) and not _has_labels(found, filename, audit, stacks):
            continue
        how = {
            Manner.RANDOM: "shuffled",
            Manner.SORTED: "sorted",
            Manner.FILTERED: "filtered",
        }[found.change.manner]
        statement = statement_of(found.change.node) or found.change.node
        return silent_finding(
            audit,
            "data/misaligned",
            spot=Spot.of_node(filename, statement),
            symptom=Spot.of_node(filename, found.pairing),
            step=audit.step,
            phase="data",
            confidence=Confidence.LIKELY,
            verdict=f"{found.moved} is {how}, but {found.kept}, which is paired with it, is "
            + ("in another order" if found.twice else "not"),
            what=f"{found.moved} and {found.kept} are paired element by element",
            why="After this line, elements are paired with the labels of other samples, so the "
            "model learns the mean of the labels.",
            fix=f"Apply one permutation or mask to {found.moved} and {found.kept}, or sort and "
            "filter a list of pairs.",
        )
    return None


def _paired(
    streams: list[Stream],
    kinds: list[type],
    files: list[str],
    together: dict[str, tuple[int, int] | None],
) -> Iterator[Paired]:
    """Paired expressions: in a loss, in a dataset's samples, in lines that pair."""
    for given, label, _, scope, stack in _pairs_at(streams):
        yield given, label, scope, stack[0].filename
    for kind in kinds:
        setter, filename = method_of(kind, "__init__")
        parts = attributes_of_self(_indexed(kind))
        if setter is not None and len(parts) > 1:
            yield parts[0], parts[-1], setter, filename
    for filename in files:
        for scope in scopes_in(tree_of(filename) or ast.Module([], [])):
            yield from (
                (one, other, scope, filename) for _, one, other in pairings_in(scope, together)
            )


def _kinds(dataset: object) -> Iterator[type]:
    """The class of a dataset, and of the datasets it wraps."""
    for _ in range(DEEPEST):
        if dataset is None:
            return
        yield type(dataset)
        dataset = getattr(dataset, "dataset", None)


def _may_be_unpaired(found: Apart) -> bool:
    """Whether unrelated collections may be zipped, one of them shuffled: two domains, say."""
    pairing = found.pairing
    may_be = isinstance(pairing, ast.Tuple) or (
        isinstance(pairing, ast.Call) and last_name(pairing.func) == "zip"
    )
    return found.change.manner is Manner.RANDOM and may_be


def _has_labels(found: Apart, filename: str, audit: Audit, stacks: list[tuple[Site, ...]]) -> bool:
    """Whether the other sequence has one number or word per sample, so that it may be labels.

    If both were shuffled, either may be.
    """
    known = [
        *(variables(each) for each in audit.frames),
        *(site.f_globals for stack in stacks for site in stack),
    ]
    thing = next((each[found.kept] for each in known if found.kept in each), None)
    if _are_labels(thing) or not isinstance(found.pairing, ast.Tuple):
        return _are_labels(thing)
    return any(map(_are_labels, _seen_again(found.pairing, filename, audit)))


def _are_labels(thing: object) -> bool:
    if isinstance(thing, list | tuple):
        return bool(thing) and all(isinstance(each, int | float | str) for each in thing[:64])
    return len(getattr(thing, "shape", (0, 0))) == 1


def _seen_again(pairing: ast.Tuple, filename: str, audit: Audit) -> list[object]:
    """The paired values of a function that has returned; it is called again in a child process."""
    statement = statement_of(pairing)
    values: list[object] = []

    def seen(_: ast.stmt, frame: FrameType) -> None:
        if not values:
            values.extend(evaluated(each, frame) for each in pairing.elts)

    def ask() -> list[object]:
        with suppress(Exception):
            run_again(
                [(filename, statement)] if statement is not None else [], seen, None, audit.frames
            )
        return [each[:MOST_SEEN] if hasattr(each, "__getitem__") else each for each in values]

    try:
        return run_in_child(ask, PATIENCE, need=Need.PREPARATION)
    except NotPossible:
        return []


def _pairs_at(streams: list[Stream]) -> Iterator[Compared]:
    """The model's input and the loss's target, if both are in one function."""
    for stream in streams:
        scope, call = function_node(stream.stack[0]), stream.stack[0].node()
        if scope is None or not isinstance(call, ast.Call) or len(call.args) < 2:
            continue
        given = given_to(call, scope)
        if given is not None:
            yield *without_common_index(given, call.args[1]), call, scope, stream.stack


def _at_losses(streams: list[Stream]) -> Iterator[tuple[Apart | None, str]]:
    for given, label, call, scope, stack in _pairs_at(streams):
        yield apart(given, label, call, scope), stack[0].filename
        yield from _inwards(given, label, Place(stack[0].filename, scope, stack[0].f_globals))
        yield from _outwards(given, label, scope, stack[1:])


def _trainers(streams: list[Stream]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Classes that receive inputs and labels in their constructor."""
    for given, label, _, scope, _ in _pairs_at(streams):
        made = constructed(given, label, scope)
        if made is not None:
            yield made


def _outwards(
    one: ast.expr, other: ast.expr, scope: ast.AST, stack: tuple[Site, ...]
) -> Iterator[tuple[Apart | None, str]]:
    """Follow two parameters of a function to its callers' arguments."""
    for site in stack:
        call, around = site.node(), function_node(site)
        given = outside(one, other, scope, call)
        if not given or call is None or around is None:
            return
        (one, other), scope = given, around
        yield apart(one, other, call, scope), site.filename
        yield from _inwards(one, other, Place(site.filename, scope, site.f_globals))


def _inwards(
    one: ast.expr, other: ast.expr, place: Place, depth: int = 0
) -> Iterator[tuple[Apart | None, str]]:
    """Follow two parts of a call's result into the function that returns them."""
    given = inside(one, other, place.scope) if depth < DEEPEST else None
    for function, filename, names in functions_of(given[0], place) if given is not None else ():
        parts = [returned(function, each) for each in given[1]] if given is not None else []
        if len(parts) == 2 and parts[0] is not None and parts[1] is not None:
            yield apart(parts[0], parts[1], parts[1], function), filename
            yield from _inwards(parts[0], parts[1], Place(filename, function, names), depth + 1)


def _in_datasets(kinds: list[type]) -> Iterator[tuple[Apart | None, str]]:
    for kind in kinds:
        setter, filename = method_of(kind, "__init__")
        parts = attributes_of_self(_indexed(kind))
        if setter is not None and len(parts) > 1:
            yield apart(parts[0], parts[-1], setter, setter), filename


def _in_files(
    files: list[str], together: dict[str, tuple[int, int] | None], stacks: list[tuple[Site, ...]]
) -> Iterator[tuple[Apart | None, str]]:
    for filename in files:
        tree = tree_of(filename)
        for scope in scopes_in(tree) if tree is not None else ():
            for pairing, one, other in pairings_in(scope, together):
                yield apart(one, other, pairing, scope), filename
                for stack in stacks:
                    depth = next(
                        (
                            number
                            for number, site in enumerate(stack)
                            if function_node(site) is scope
                        ),
                        None,
                    )
                    if depth is not None:
                        yield from _inwards(
                            one, other, Place(filename, scope, stack[depth].f_globals)
                        )
                        yield from _outwards(one, other, scope, stack[depth + 1 :])
                yield from _where_called(one, other, scope, _names_in(filename, stacks))
            yield from _handed_over(scope, together, _names_in(filename, stacks))


def _handed_over(
    scope: ast.AST, together: dict[str, tuple[int, int] | None], place: Place | None
) -> Iterator[tuple[Apart | None, str]]:
    """`Pairs(*prepared(table))`: the values that a function returns in pairs."""
    for node in own_nodes(scope) if place is not None else ():
        match node:
            case ast.Call(func=func, args=[ast.Starred(value=ast.Call() as call)]):
                places = (
                    (0, 1) if last_name(func) == "TensorDataset" else together.get(last_name(func))
                )
                here = Place(place.filename, scope, place.names) if place is not None else None
                for function, filename, _ in (
                    functions_of(call, here) if places is not None and here is not None else ()
                ):
                    one, other = (returned(function, (each,)) for each in places or ())
                    if one is not None and other is not None:
                        yield apart(one, other, other, function), filename


def _names_in(filename: str, stacks: list[tuple[Site, ...]]) -> Place | None:
    """A file with its global names."""
    sites = (site for stack in stacks for site in stack if site.filename == filename)
    tree, found = tree_of(filename), next(sites, None)
    return (
        Place(filename, tree, found.f_globals) if found is not None and tree is not None else None
    )


def _where_called(
    one: ast.expr, other: ast.expr, scope: ast.AST, place: Place | None
) -> Iterator[tuple[Apart | None, str]]:
    """A generator is on no stack: its arguments are in its only call."""
    if place is None or not isinstance(scope, ast.FunctionDef) or not _yields(scope):
        return
    calls = [
        each
        for each in ast.walk(place.scope)
        if isinstance(each, ast.Call) and last_name(each.func) == scope.name
    ]
    around = [enclosing(each, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module) for each in calls]
    given = outside(one, other, scope, calls[0]) if len(calls) == 1 else []
    if given and around[0] is not None:
        yield apart(given[0], given[1], calls[0], around[0]), place.filename
        yield from _inwards(given[0], given[1], Place(place.filename, around[0], place.names))


def _yields(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Yield) for each in own_nodes(function))


def _parameters(kind: type) -> tuple[int, int] | None:
    """The positions of a dataset's arguments that it indexes together."""
    setter = method_of(kind, "__init__")[0]
    names = parameter_names(setter)[1:] if setter is not None else []
    values = [assignment_of(kind, each) for each in _indexed(kind)]
    given = [
        each[0].value.id
        for each in values
        if each is not None and isinstance(each[0].value, ast.Name)
    ]
    places = [names.index(each) for each in given if each in names]
    return (places[0], places[-1]) if len(places) > 1 else None


def _indexed(kind: type) -> list[str]:
    getter = method_of(kind, "__getitem__")[0]
    return indexed_together(getter) if getter is not None else []
