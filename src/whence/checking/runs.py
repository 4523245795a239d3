"""Forward and backward run, and the loss is a scalar on the graph of the weights."""

from __future__ import annotations

from time import perf_counter

import torch

from whence.checking.calling import NoLoss
from whence.checking.explained import Watched, train_once, watch_step
from whence.checking.places import place_of_exception, place_of_finding
from whence.checking.result import Outcome, Place
from whence.checking.subject import Subject
from whence.checking.verdict import Verdict, failed, passed
from whence.finding import Finding, Severity, described
from whence.rules.nonfinite.telling import number_text


def check_runs(subject: Subject) -> Verdict:
    if isinstance(subject.raised, NoLoss):
        return failed(
            str(subject.raised),
            why=(
                f"The call was {subject.way.described}; its result is differentiated, which "
                "requires a scalar."
            ),
            fix="Return the loss as a tensor with one element, such as its mean over the batch.",
        )
    began = perf_counter()
    made = subject.fresh()
    weights = [each for each in made.model.parameters() if each.requires_grad]
    losses: list[torch.Tensor] = []

    def step() -> None:
        done = subject.run(made)
        losses.append(done.loss.detach())
        train_once(lambda: done, weights or [torch.zeros(1, requires_grad=True)])

    watched = watch_step(made.model, step)
    seconds = perf_counter() - began
    if watched.raised is not None:
        return _loud(subject, watched)
    return _silent(subject, watched, losses[0], seconds)


def _loud(subject: Subject, watched: Watched) -> Verdict:
    raised = watched.raised or subject.raised
    assert raised is not None
    finding = watched.worst or next(iter(watched.findings), None)
    text = described(raised).splitlines()[0]
    if finding is not None:
        return failed(
            finding.verdict,
            why=f"{text.rstrip('.')}. {finding.why}",
            fix=finding.fix,
            place=place_of_finding(finding),
            notes=_called(subject),
        )
    return failed(
        text,
        why=f"{subject.way.described} raised the exception.",
        fix="Fix this line, or change how model, batch and loss are passed to the check.",
        place=place_of_exception(raised),
        notes=_called(subject),
    )


def _called(subject: Subject) -> tuple[str, ...]:
    return (f"called as {subject.way.described}",)


def _silent(subject: Subject, watched: Watched, loss: torch.Tensor, seconds: float) -> Verdict:
    number = float(loss)
    measured = (
        f"{subject.way.described} gives {number_text(number)}, with gradients; {seconds:.2f} s"
    )
    finding = watched.worst
    if not bool(torch.isfinite(loss).all()):
        return failed(
            f"the loss is {number_text(number)}",
            why=finding.why if finding is not None else "A value in the first pass is not finite.",
            fix=finding.fix
            if finding is not None
            else "Run `whence run`, which names the operation that first produces it.",
            place=_place(finding),
        )
    if finding is None:
        return passed(measured)
    outcome = Outcome.FAILED if finding.severity is Severity.ERROR else Outcome.WARNING
    note = (f"see `whence rule {finding.rule}`",)
    return Verdict(outcome, finding.verdict, finding.why, finding.fix, _place(finding), note)


def _place(finding: Finding | None) -> Place | None:
    return place_of_finding(finding) if finding is not None else None
