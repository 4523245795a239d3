"""Vectors that should have unit length but are normalized over the batch, feature by feature."""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.rules.footprints import are_samples
from whence.rules.telling import place_of, shape_text, silent_finding, spot_at
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.tape import Call, Value

TRANSPOSES = frozenset({"t", "T.__get__", "mT.__get__", "transpose", "contiguous", "detach"})
PRODUCTS = frozenset({"matmul", "__matmul__", "mm", "linear"})
BY_ROW = frozenset(
    {"triplet_margin_loss", "triplet_margin_with_distance_loss", "cosine_embedding_loss",
     "cosine_similarity", "pairwise_distance", "cdist"}
)  # fmt: skip
"""Functions that read rows as vectors by default."""


def normalized_over_samples(study: Study) -> Finding | None:
    """`normalize(z, dim=0)` of (32, 16), whose rows are then compared with each other."""
    for loss, call in study.loss_calls():
        given = call.operands[0] if call.operands else None
        if (
            call.name != "normalize"
            or call.inner
            or given is None
            or len(given.shape) != 2
            or not given.requires_grad
        ):
            continue
        if _axis(call) != 0 or given.shape[0] < 2 or ("normalize", call.stack) in study.asked:
            continue
        study.asked.add(("normalize", call.stack))
        user = _compares_rows(study, call)
        if user is None or not are_samples(study, given):
            continue
        spot = place_of(call, study)
        return silent_finding(
            study,
            "shape/norm-axis",
            spot=spot,
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            # Sums over samples, written as products of rows, normalize columns on purpose.
            severity=Severity.INFO,
            confidence=Confidence.LIKELY,
            verdict=f"normalize runs over the samples: dim=0 of {shape_text(given.shape)}",
            what=f"{user.name} compares rows that do not have unit length",
            why="dim=0 divides each feature by its norm over the batch. The result for one sample "
            "depends on the other samples, and rows keep different lengths.",
            fix="Use dim=-1, which normalizes the features of each sample.",
            patch=_along_features(spot),
            replay="bit-identical",
            counterfactual="replacing one sample changes only its own rows of the input of "
            "normalize",
        )
    return None


def _axis(call: Call) -> object:
    return call.kwargs.get("dim", call.args[2] if len(call.args) > 2 else 1)


def _compares_rows(study: Study, normalised: Call) -> Call | None:
    """A call that reads the rows as vectors; None if one sums over them, as a correlation does."""
    turned: dict[Value, bool] = dict.fromkeys(normalised.results, False)
    found: Call | None = None
    for call in study.calls:
        used = next((each for each in call.operands if each in turned), None)
        if call.number <= normalised.number or call.inner or used is None:
            continue
        if call.name in TRANSPOSES:
            changes = call.name not in ("contiguous", "detach")
            turned.update(dict.fromkeys(call.outputs, turned[used] != changes))
        elif call.name in PRODUCTS:
            # A product sums over the last axis of its left operand and the first of its right.
            first = used is call.operands[0]
            if turned[used] == first or (call.name == "linear" and not first):
                return None
            found = call
        elif call.name in BY_ROW and not turned[used]:
            found = call
    return found


def _along_features(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    words = (
        [each.value for each in node.keywords if each.arg == "dim"]
        if isinstance(node, ast.Call)
        else []
    )
    if spot is None or len(words) != 1 or ast.unparse(words[0]) != "0":
        return None
    return diff_of(replace_node(spot.filename, words[0], "-1"))
