"""Warm up the parent process of every forked child."""

from __future__ import annotations

import gc
import os
import random

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy
import pytest
import torch
import torch.optim
import torch.utils.data

import whence.report.live
import whence.watching.session  # noqa: F401
from whence.cli import demo, report, rule, run  # noqa: F401
from whence.rules.rule import all_rules

torch.set_num_threads(1)
all_rules()
numpy.zeros(1)


def _warm() -> None:
    """Trigger torch's late imports: its compiler and its shape functions."""
    layer = torch.nn.Linear(2, 2)
    for kind in (torch.optim.Adam, torch.optim.SGD):
        optimizer = kind(layer.parameters(), lr=0.1)
        torch.nn.functional.cross_entropy(layer(torch.ones(2, 2)), torch.tensor([0, 1])).backward()
        optimizer.step()
    torch.nn.Conv2d(1, 1, 1, device="meta")(torch.ones(1, 1, 2, 2, device="meta"))
    next(iter(torch.utils.data.DataLoader(torch.ones(2, 2))))


def _seed() -> None:
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _same_numbers_each_time() -> None:
    """Seed every test, or one that depends on its draws would fail on an unrelated change."""
    _seed()


_warm()
_seed()
# Existing objects are exempt from garbage collection in the children and stay shared with them.
gc.collect()
gc.freeze()
