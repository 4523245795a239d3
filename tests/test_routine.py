"""Routine steps take the fast path; anything unusual ends it, and is seen as without it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forking import in_child
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from whence.config import Config
from whence.record import Record
from whence.report.live import LiveReport
from whence.watching import budget, pacing
from whence.watching.session import Session

MOST_STEPS = 2000


class Loop:
    """A watched loop, some steps into its run."""

    def __init__(self, *more: nn.Module) -> None:
        # The steps before the routine are shortened: this runs in its own child.
        pacing.GRACE_CALLS, pacing.LEDGER_STEPS = 600, 20
        # How far the first second reaches depends on the machine.
        budget.FLOOR_SECONDS = 60.0
        torch.manual_seed(0)
        self.session = Session(Config(), Record(), LiveReport(quiet=True, folder=None))
        self.session.start()
        self.net = nn.Sequential(nn.Linear(4, 8), *more, nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.01)
        self.inputs = torch.randn(16, 4)

    def settled(self, step: Callable[[Loop], None] | None = None) -> Loop:
        """Continue until nothing is recorded, and a little further."""
        while not self.session.pace.is_quiet() and self.session.step < MOST_STEPS:
            (step or Loop.step)(self)
        for _ in range(8):
            (step or Loop.step)(self)
        return self

    def loss(self) -> torch.Tensor:
        return (self.net(self.inputs) - self.inputs[:, :1]).square().mean()

    def step(self, loss: torch.Tensor | None = None, **backward: Any) -> None:
        self.optimizer.zero_grad()
        (self.loss() if loss is None else loss).backward(**backward)
        self.optimizer.step()

    @property
    def goes_on(self) -> bool:
        return self.session.routine.on


def in_fork(body: Callable[[], None], folder: Path) -> None:
    ran = in_child(body, cwd=folder)
    assert ran.code == 0, ran.stderr


def test_most_steps_go_the_short_way_and_are_counted(tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop().settled()
        before = loop.session.step
        assert loop.goes_on
        for _ in range(20):
            loop.step()
        assert loop.goes_on
        assert loop.session.step == before + 20
        assert loop.session.auditor.optimizers.entries[-1].steps == loop.session.step

    in_fork(body, tmp_path)


def build_another(loop: Loop) -> None:
    torch.optim.Adam(loop.net.parameters())


def go_on_with_the_graph(loop: Loop) -> None:
    loop.step(retain_graph=True)


def explode(loop: Loop) -> None:
    loop.step(loop.loss() * 1e6)


def accumulate(loop: Loop) -> None:
    loop.optimizer.zero_grad()
    for _ in range(2):
        loop.loss().backward()
    loop.optimizer.step()


def begin_to_record(loop: Loop) -> None:
    loop.session.pace.record()
    loop.step()


@pytest.mark.parametrize(
    "departure",
    [build_another, go_on_with_the_graph, explode, begin_to_record],
    ids=lambda each: each.__name__,
)
def test_what_is_out_of_the_ordinary_ends_it(
    departure: Callable[[Loop], None], tmp_path: Path
) -> None:
    def body() -> None:
        loop = Loop().settled()
        loop.session.routine.judge = lambda: None  # type: ignore[method-assign]
        departure(loop)
        assert not loop.goes_on

    in_fork(body, tmp_path)


def test_gradients_that_are_added_up_are_looked_at_one_by_one(tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop().settled(accumulate)
        assert loop.goes_on
        loop.optimizer.zero_grad()
        (loop.loss() + (loop.net[0].weight.sum() * torch.zeros(1)).sqrt().sum()).backward()
        assert not loop.goes_on

    in_fork(body, tmp_path)


def test_a_check_of_the_gradients_counts_as_no_change_of_them(tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop().settled()
        loop.optimizer.zero_grad()
        loop.loss().backward()
        weights = list(loop.net.parameters())
        before = [each.grad._version for each in weights if each.grad is not None]
        assert loop.session.routine.step_began(loop.optimizer, None)
        assert [each.grad._version for each in weights if each.grad is not None] == before
        weights[0].grad = torch.full_like(weights[0], torch.nan)
        assert not loop.session.routine.step_began(loop.optimizer, None)

    in_fork(body, tmp_path)


def test_several_optimizers_take_turns(tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop()
        other = torch.optim.Adam([extra := nn.Parameter(torch.ones(3))])

        def turn(loop: Loop) -> None:
            loop.step()
            other.zero_grad()
            (loop.loss().detach() + 1e-3 * extra.sum()).backward()
            other.step()

        loop.settled(turn)
        assert loop.goes_on
        extra.data.fill_(float("inf"))
        turn(loop)
        assert not loop.goes_on

    in_fork(body, tmp_path)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_is_told_in_its_step(where: str, tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop().settled()
        assert loop.goes_on
        zero = torch.zeros(1)
        loss = (
            loop.loss() / zero
            if where == "loss"
            else loop.loss() + (loop.net[0].weight.sum() * zero).sqrt().sum()
        )
        at = loop.session.step
        loop.step(loss)
        found = loop.session.record.report.findings
        assert [each.origin.step for each in found if each.rule.startswith("nonfinite/")][:1] == [
            at
        ]

    in_fork(body, tmp_path)


def test_batches_that_nothing_comes_of_are_let_go(tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop().settled()
        loader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4)
        list(loader)
        loop.settled()
        seen = [weakref.ref(inputs) for (inputs,) in loader]
        assert sum(each() is not None for each in seen) <= 1
        assert len(loop.session.passes.current.deliveries) == 1

    in_fork(body, tmp_path)


def test_batches_of_a_known_loader_are_looked_at_when_something_happens(tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop().settled()
        session, samples = loop.session, TensorDataset(torch.randn(24, 4))
        loaders = DataLoader(samples, batch_size=4), DataLoader(samples, batch_size=3)
        for _ in range(5):
            for loader in loaders:
                list(loader)
        loop.settled()
        infos = [session.loaders.info_of(each) for each in loaders]
        for number, ((_,), (second,)) in enumerate(zip(*loaders, strict=False)):
            assert session.calls.on or session.loader_sensor.waiting.at is not None
            if number == 3:
                assert not session.calls.on
                loop.net(second)
                assert session.loader_sensor.waiting.at is None
                now = session.loaders.current
                assert now is not None
                assert (now.info, now.number, now.indices) == (infos[1], 5 * 8 + 3, [9, 10, 11])
                assert [
                    session.auditor.batches.entry_of(each).epochs[-1].batches for each in infos
                ] == [4, 4]
        assert [each.batches for each in infos] == [6 * 6, 5 * 8 + 6]
        samples.tensors[0][9] = torch.nan
        for (inputs,) in loaders[0]:
            loop.step(loop.net(inputs).square().mean())
        (found,) = (
            each for each in session.record.report.findings if each.rule == "data/nonfinite"
        )
        assert found.origin.sample is not None
        assert found.origin.sample.dataset_index == 9

    in_fork(body, tmp_path)


def test_a_schedule_is_noted_and_does_not_end_it(tmp_path: Path) -> None:
    def body() -> None:
        loop = Loop()
        scheduler = torch.optim.lr_scheduler.StepLR(loop.optimizer, 50)
        loop.settled(lambda loop: (loop.step(), scheduler.step()))
        assert loop.goes_on
        assert loop.session.auditor.schedules.known[-1].steps == loop.session.step

    in_fork(body, tmp_path)


def test_running_statistics_are_looked_at_and_kept_from_before_each_step(tmp_path: Path) -> None:
    def body() -> None:
        norm = nn.BatchNorm1d(8)
        loop = Loop(norm).settled()
        assert loop.goes_on
        mean = norm.running_mean
        assert mean is not None
        before = mean.clone()
        copies = loop.session.passes.current.copies
        assert torch.equal(copies[id(mean)], before)
        loop.loss()
        assert not torch.equal(mean, before)
        assert torch.equal(copies[id(mean)], before)
        mean.fill_(float("nan"))
        loop.step(loop.net[0].weight.sum())
        assert not loop.goes_on

    in_fork(body, tmp_path)


def test_a_program_that_makes_no_steps_is_let_alone_in_time(tmp_path: Path) -> None:
    def body() -> None:
        session = Session(Config(), Record(), LiveReport(quiet=True, folder=None))
        session.start()
        net, inputs = nn.Linear(4, 2), torch.ones(3, 4)
        with torch.no_grad():
            for _ in range(8000):
                net(inputs)
        assert not session.calls.on
        assert not session.module_sensor.on
        assert session.scope is None

    in_fork(body, tmp_path)


@pytest.mark.parametrize(
    ("more", "kept"), [((), False), ((nn.Dropout(0.5),), True)], ids=["none", "dropout"]
)
def test_random_states_are_kept_only_if_a_loss_depends_on_draws(
    more: tuple[nn.Module, ...], kept: bool, tmp_path: Path
) -> None:
    """A loader draws a seed for each epoch, which does not belong to the step."""

    def body() -> None:
        loop = Loop(*more)
        loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16, shuffle=True)

        def epoch(loop: Loop) -> None:
            for (inputs,) in loader:
                loop.inputs = inputs
                loop.step()

        loop.settled(epoch)
        loop.step()
        assert bool(loop.session.passes.current.marks) == kept

    in_fork(body, tmp_path)
