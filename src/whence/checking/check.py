"""`whence.check`: eleven checks of model, batch and loss before training, on copies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from whence.checking.axes import find_layout
from whence.checking.calling import Choice, choose, ways
from whence.checking.clones import Clone, Uncopyable, clone, is_lazy
from whence.checking.coverage import check_optimizer
from whence.checking.custom_gradients import check_custom_gradients
from whence.checking.dependence import check_dependence
from whence.checking.gradients import check_gradients
from whence.checking.loss_at_start import check_loss_at_start
from whence.checking.modes import check_modes
from whence.checking.overfitting import check_overfitting
from whence.checking.places import place_of_site
from whence.checking.result import Check, CheckReport, Place
from whence.checking.runs import check_runs
from whence.checking.schedule import check_schedule
from whence.checking.sizes import check_sizes
from whence.checking.subject import Given, Subject
from whence.checking.types_and_devices import check_types
from whence.checking.untouched import random_states_kept, seed, untouched
from whence.checking.verdict import Verdict, unchecked
from whence.finding import described
from whence.source.sites import user_stack


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    ask: Callable[[Subject], Verdict]
    needs_pass: bool = True
    """Whether the check requires that forward and backward run."""
    needs_data: bool = False
    """Whether a batch of identical values would be blamed on the model."""


QUESTIONS = (
    Question("runs", check_runs, needs_pass=False),
    Question("loss-at-start", check_loss_at_start),
    Question("gradients", check_gradients, needs_data=True),
    Question("dependence", check_dependence, needs_data=True),
    Question("modes", check_modes),
    Question("custom-gradients", check_custom_gradients),
    Question("overfitting", check_overfitting, needs_data=True),
    Question("types", check_types, needs_pass=False),
    Question("optimizer", check_optimizer, needs_pass=False),
    Question("sizes", check_sizes),
    Question("schedule", check_schedule, needs_pass=False),
)


def check(
    model: nn.Module,
    batch: Any,
    loss_fn: Any,
    optimizer: Any = None,
    *,
    dataset_size: int | None = None,
    batch_size: int | None = None,
    planned_steps: int | None = None,
    scheduler: Any = None,
    causal: bool | None = None,
) -> CheckReport:
    """Check a model before training. Everything runs on copies; the arguments are unchanged.

    `batch` is (inputs, targets), a dict, any structure, or a loader, whose first batch is used.
    `loss_fn` takes (output, targets), (output) or (model, batch). `dataset_size` and `batch_size`
    add a check of the last batch of an epoch; `scheduler` and `planned_steps` add a check of the
    schedule. `causal` checks that predictions do not depend on later inputs; by default this is
    checked if the targets are the inputs shifted by one.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    if not callable(loss_fn):
        raise TypeError(f"loss_fn must be callable, got {type(loss_fn).__name__}")
    if isinstance(batch, DataLoader):
        with random_states_kept():
            batch, dataset_size, batch_size = _first_of(batch, dataset_size, batch_size)
    given = Given(
        model, batch, loss_fn, optimizer, dataset_size, batch_size, planned_steps, scheduler, causal
    )
    callers = {place_of_site(each) for each in user_stack(sys._getframe(1))}
    with untouched(model, loss_fn, batch):
        try:
            subject = _prepared(given)
        except Uncopyable as refusal:
            return _nothing_to_run(given, str(refusal))
        broken = subject.raised is not None
        done = []
        for question in QUESTIONS:
            reason = "forward and backward do not run" if broken and question.needs_pass else ""
            done.append(_asked(question, subject, reason))
            broken = broken or (
                question.name == "runs"
                and done[-1].outcome == "failed"
                and not _backward_runs(subject)
            )
    return CheckReport(tuple(_elsewhere(each, callers) for each in done))


def _first_of(
    loader: DataLoader[Any], dataset_size: int | None, batch_size: int | None
) -> tuple[Any, Any, Any]:
    """Take a loader's first batch, and its sizes. The last batch counts unless it is dropped."""
    own = loader.generator.get_state() if loader.generator is not None else None
    batch = next(iter(loader), None)
    if loader.generator is not None and own is not None:
        loader.generator.set_state(own)
    if batch is None:
        raise TypeError("batch is a loader that yields no batch")
    is_sized = (
        hasattr(loader.dataset, "__len__")
        and loader.batch_size is not None
        and not loader.drop_last
    )
    if is_sized and dataset_size is None and batch_size is None:
        return batch, len(loader.dataset), loader.batch_size  # type: ignore[arg-type]
    return batch, dataset_size, batch_size


def _elsewhere(done: Check, callers: set[Place | None]) -> Check:
    """Drop the caller of the check as a place, even if all other frames are PyTorch's."""
    return replace(done, place=None) if done.place in callers else done


def _prepared(given: Given) -> Subject:
    """Copy everything once, initialise lazy modules, and find how to call model and loss."""
    source = clone(given.model, given.loss_fn, given.batch)
    candidates = ways(source.model, source.batch, source.loss_fn)

    def fresh() -> Clone:
        seed(0)
        made = clone(source.model, source.loss_fn, source.batch)
        made.model.train()
        return made

    if any(is_lazy(each) for each in (*source.model.parameters(), *source.model.buffers())):
        settled = fresh()
        settled.model.eval()
        choice = choose(lambda: settled, candidates)
        settled.model.train(given.model.training)
        source = Clone(
            settled.model, settled.loss_fn, clone(given.model, given.loss_fn, given.batch).batch
        )
    else:
        choice = choose(fresh, candidates)
    return _subject(given, source, choice)


def _subject(given: Given, source: Clone, choice: Choice) -> Subject:
    subject = Subject(given, source, choice.way, None, choice.raised)

    def runs(batch: Any) -> bool:
        try:
            subject.run(subject.fresh(batch))
        except Exception:
            return False
        return True

    subject.layout = find_layout(source.batch, source.model, runs)
    return subject


def _backward_runs(subject: Subject) -> bool:
    try:
        subject.run(subject.fresh()).loss.backward()  # type: ignore[no-untyped-call]
    except Exception:
        return False
    return True


def _asked(question: Question, subject: Subject, reason: str) -> Check:
    """Run one check. A fault in Whence is not the model's: the check counts as not made."""
    began = perf_counter()
    try:
        verdict = unchecked(reason) if reason else question.ask(subject)
    except Exception as error:
        verdict = unchecked(f"the check itself failed: {described(error).splitlines()[0]}")
    if question.needs_data and verdict.why and not subject.has_data():
        verdict = unchecked(f"every input is constant, so this proves nothing: {verdict.measured}")
    return _as_check(question, verdict, perf_counter() - began)


def _as_check(question: Question, verdict: Verdict, seconds: float) -> Check:
    return Check(
        question.name,
        verdict.outcome,
        verdict.measured,
        verdict.why,
        verdict.fix,
        verdict.place,
        verdict.notes,
        seconds,
    )


def _nothing_to_run(given: Given, reason: str) -> CheckReport:
    """Without copies, run only the checks that read and execute nothing."""
    subject = Subject(
        given,
        Clone(given.model, given.loss_fn, given.batch),
        ways(given.model, given.batch, given.loss_fn)[0],
        None,
    )
    asked = (check_optimizer, check_schedule)
    return CheckReport(
        tuple(_asked(each, subject, "" if each.ask in asked else reason) for each in QUESTIONS)
    )
