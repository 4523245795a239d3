"""Every epoch has the same order.

What happened
    A DistributedSampler shuffles by its seed and its epoch, and was never told the epoch: set_epoch was not called.
Why it matters
    Every epoch has the same batches in the same order; the shuffling is done once.
How it is detected
    The dataset indices of two whole epochs are the same, in the same order, with a sampler that has set_epoch and is to shuffle.
How to fix it
    sampler.set_epoch(epoch) at the start of each epoch.
When it stays silent
    Samplers without shuffling, orders that are the same on purpose (shuffle=False).
Cost
    A hash of the indices of each batch.
"""

from __future__ import annotations

import ast
from itertools import pairwise

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.rules.optimizer.lifetime import definition_of
from whence.rules.rule import audit_rule
from whence.rules.telling import tell_silent
from whence.source.sites import Site
from whence.source.spots import Spot


@audit_rule("distributed/sampler-epoch")
def sampler_epoch(audit: Audit) -> Finding | None:
    for info in audit.loaders.infos():
        orders = info.orders
        alike = any(one == other for one, other in pairwise(orders))
        if not info.shuffles_by_epoch or not alike or not info.stack:
            continue
        return tell_silent(
            audit,
            "distributed/sampler-epoch",
            spot=_sampler(info.stack[0]) or Spot.of_site(info.stack[0]),
            symptom=Spot.of_site(info.stack[0]),
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            verdict="every epoch has the same order: the sampler is never told the epoch",
            what="two epochs have the same indices in the same order",
            why="DistributedSampler shuffles with seed + epoch, and epoch stays 0 until set_epoch is called.",
            fix="Call sampler.set_epoch(epoch) at the start of each epoch.",
        )
    return None


def _sampler(site: Site) -> Spot | None:
    node = site.node()
    given = (
        next((each.value for each in node.keywords if each.arg == "sampler"), None)
        if isinstance(node, ast.Call)
        else None
    )
    if isinstance(given, ast.Call):
        return Spot.of_node(site.filename, given)
    return definition_of(given, site) if given is not None else None
