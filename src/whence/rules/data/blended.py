"""Labels that no one has given: mixtures of others, made by resizing them as pictures are resized."""

from __future__ import annotations

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.rules.operations import CLASS_LOSSES
from whence.rules.rule import audit_rule
from whence.rules.telling import tell_silent
from whence.tape.batches import BatchLeaf


@audit_rule("data/label-range")
def blended_labels(audit: Audit) -> Finding | None:
    """Labels that were resized as pictures are have classes in them that nobody gave."""
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        blend = habits.blend if habits is not None else None
        if blend is None or not _are_classes(audit, entry, blend.path):
            continue
        invented, had = (", ".join(map(str, each[:8])) for each in (blend.invented, blend.before))
        return tell_silent(
            audit,
            "data/label-range",
            spot=blend.spot or entry.info.built,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            verdict=f"resizing labels invents others: sample {blend.index} has {invented} where it had {had} only",
            what=f"{blend.path or 'the sample'} is what mode={blend.manner!r} gives, rounded",
            why="A class is a name, not an amount: what lies between two of them in a picture is one or the other, never their mean.",
            fix="Resize labels with mode='nearest' (or 'nearest-exact'), and pictures as before.",
            counterfactual=f"sample {blend.index} was fetched again, in a child process, and compared with what was resized",
        )
    return None


def _are_classes(audit: Audit, entry: LoaderEntry, path: str) -> bool:
    """Whether a loss over classes is given that part of a batch."""
    return any(
        isinstance(each.leaf, BatchLeaf) and each.leaf.batch.info is entry.info and each.leaf.path == path
        for call in audit.tape.calls
        if call.name in CLASS_LOSSES
        for each in call.operands
    )
