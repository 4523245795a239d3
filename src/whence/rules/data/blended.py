"""Labels that interpolation created: class masks resized like images."""

from __future__ import annotations

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.rules.operations import CLASS_LOSSES
from whence.rules.rule import audit_rule
from whence.rules.telling import silent_finding
from whence.tape.batches import BatchLeaf


@audit_rule("data/label-range")
def blended_labels(audit: Audit) -> Finding | None:
    """Resized labels contain classes that the original labels do not have."""
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        blend = habits.blend if habits is not None else None
        if blend is None or not _are_classes(audit, entry, blend.path):
            continue
        created, had = (", ".join(map(str, each[:8])) for each in (blend.invented, blend.before))
        return silent_finding(
            audit,
            "data/label-range",
            spot=blend.spot or entry.info.built,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            verdict=f"interpolation created class ids that are not labels: {created} "
            f"(sample {blend.index} had {had})",
            what=f"sample{blend.path} equals the labels resized with "
            f"mode={blend.manner!r}, rounded",
            why="A class id is a name, not a quantity: the average of two class ids is another, "
            "unrelated class.",
            fix="Resize labels with mode='nearest' (or 'nearest-exact'), and images as before.",
            counterfactual=f"sample {blend.index} was fetched again in a child process and "
            "compared with its labels before the resize",
        )
    return None


def _are_classes(audit: Audit, entry: LoaderEntry, path: str) -> bool:
    """Whether a classification loss receives that part of a batch."""
    return any(
        isinstance(each.leaf, BatchLeaf)
        and each.leaf.batch.info is entry.info
        and each.leaf.path == path
        for call in audit.tape.calls
        if call.name in CLASS_LOSSES
        for each in call.operands
    )
