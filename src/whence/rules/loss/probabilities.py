"""The expected input of a loss: logits, probabilities, or log-probabilities."""

from __future__ import annotations

import ast
import math
from itertools import islice
from pathlib import Path

from torch import nn

from whence.finding import Confidence, Finding
from whence.ledgers.study import Loss, Study
from whence.lineage.ancestry import ancestors
from whence.rules.nonfinite.telling import number_text
from whence.rules.operations import SAME_NUMBERS
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import place_of, shape_text, silent_finding, spot_at
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.replay import Run
from whence.tape.tape import Call, Value


def made_by(value: Value, names: frozenset[str]) -> Call | None:
    """The call of one of these names that computed a value, which was only reshaped since."""
    for _ in range(100):
        call = value.call
        if call is None or call.forgotten:
            return None
        if call.name in names:
            return call
        if call.name not in SAME_NUMBERS or not call.operands:
            return None
        value = call.operands[0]
    return None


def argument(call: Call, position: int, name: str) -> Value | None:
    given = call.args[position] if len(call.args) > position else call.kwargs.get(name)
    return given if isinstance(given, Value) else None


SOFTMAX = frozenset({"softmax", "softmin"})
LOGS = frozenset({"log_softmax", "log", "log1p", "logsigmoid"})
TAKES_LOGS = {"nll_loss": "input", "kl_div": "input", "ctc_loss": "log_probs"}
"""Losses of log-probabilities, and the name of that argument."""
DIVISIONS = frozenset({"div", "__truediv__", "true_divide", "divide", "div_", "__itruediv__"})
NEAR = 8
ONLY_THAT = (nn.Softmax, nn.Softmax2d, nn.Softmin, nn.Sigmoid, nn.Hardsigmoid)
"""Layers that apply only this function, so they can be replaced as a whole."""
SIGMOID = frozenset({"sigmoid", "sigmoid_", "hardsigmoid", "expit"})


@study_rule("loss/double-softmax", Rank.CAUSE)
def double_softmax(study: Study) -> Finding | None:
    """Softmax before a loss that applies it.

    What happened
        cross_entropy expects logits and applies log_softmax itself. It received the result of a
        softmax.
    Why it matters
        All inputs are between 0 and 1, so even a perfect prediction has a large loss, and gradients
        are small: the model learns slowly and badly, without any error.
    How it is detected
        On the tape, the loss (or the softmax of a hand-written loss) receives the result of a
        softmax, reshaped or cast at most; or its input was divided or clamped just before, has no
        negative value, and sums to one over the classes.
    How to fix it
        Pass the logits to the loss; apply softmax where probabilities are printed or used.
    When it stays silent
        For log_softmax (applying it twice changes nothing), softmax in attention, in `predict()`,
        on the target, or scaled before the loss.
    Cost
        A pass over the tape of a few recorded steps.
    """
    for loss, call in study.loss_calls():
        if (written := _written_twice(call, SOFTMAX | {"log_softmax"}, SOFTMAX)) is not None:
            return _report_twice(
                study,
                loss,
                call,
                written,
                rule="loss/double-softmax",
                verdict=f"softmax is applied twice: here, and again by {call.name}",
                why="The input of the second softmax is between 0 and 1, so its result is nearly "
                "the same for all classes, and gradients are small.",
                fix="Pass the logits to the loss, and apply softmax only where probabilities are "
                "needed.",
                confidence=Confidence.LIKELY,
            )
        given = argument(call, 0, "input") if call.name == "cross_entropy" else None
        applied = (
            made_by(given, SOFTMAX) or _normalised(study, given) if given is not None else None
        )
        if given is None or applied is None:
            continue
        classes = given.shape[1] if len(given.shape) > 1 else given.shape[0]
        floor = math.log(math.e + classes - 1) - 1
        return _report_twice(
            study,
            loss,
            call,
            applied,
            rule="loss/double-softmax",
            verdict="softmax is applied before cross_entropy, which applies it again"
            if applied.name in SOFTMAX
            else "cross_entropy expects logits, got probabilities",
            why=f"cross_entropy applies softmax itself. With {classes} classes and probabilities "
            f"as input, the loss cannot fall below {floor:.4f}, even for a perfect prediction.",
            fix="Pass the logits to the loss, and apply softmax only where probabilities are "
            "needed.",
            is_last=made_by(given, SOFTMAX) is applied,
        )
    return None


def _written_twice(call: Call, second: frozenset[str], first: frozenset[str]) -> Call | None:
    """The first of two such calls in a hand-written loss, if both run over the same axis."""
    applied = (
        made_by(call.operands[0], first)
        if call.name in second and call.operands and not call.inner
        else None
    )
    if applied is None or applied.inner or not applied.outputs[0].requires_grad:
        return None
    one, other = (
        each.kwargs.get("dim", each.args[1] if len(each.args) > 1 else None)
        for each in (call, applied)
    )
    same = applied.outputs[0].shape == call.outputs[0].shape and one == other
    return applied if same or second & SIGMOID else None


def _normalised(study: Study, given: Value) -> Call | None:
    """The softmax or division behind values that sum to one over the classes."""
    near = list(islice(ancestors(given), NEAR))
    applied = next(
        (each for each in near if each.name in SOFTMAX | DIVISIONS and not each.inner), None
    )
    if (
        applied is None
        or not given.requires_grad
        or any(each.name in LOGS for each in near if each.number > applied.number)
    ):
        return None
    content = study.content(given)
    axis = 1 if len(given.shape) > 1 else 0
    if content is None or not given.shape or content.shape[axis] < 2:
        return None
    content = content.detach().double()
    is_distribution = bool((content >= 0).all()) and bool(
        ((content.sum(axis) - 1).abs() < 1e-3).all()
    )
    return applied if is_distribution else None


@study_rule("loss/double-sigmoid", Rank.CAUSE)
def double_sigmoid(study: Study) -> Finding | None:
    """Sigmoid before a loss that applies it, or logits into one that does not.

    What happened
        binary_cross_entropy_with_logits expects logits and applies a sigmoid itself. It received
        the result of a sigmoid; or binary_cross_entropy received a sigmoid of a sigmoid, or logits,
        for which it raises.
    Why it matters
        The inputs are between 0 and 1, so no prediction can be below one half: a negative sample
        never costs less than 0.693.
    How it is detected
        On the tape, the loss (or the sigmoid of a hand-written loss) receives the result of a
        sigmoid, reshaped or cast at most.
    How to fix it
        Pass the logits to the loss; apply sigmoid where probabilities are printed or used.
    When it stays silent
        For models with a sigmoid that the training loss does not use, and for sigmoids used as
        gates.
    Cost
        A pass over the tape of a few recorded steps.
    """
    for loss, call in study.loss_calls():
        if (written := _written_twice(call, SIGMOID | {"logsigmoid"}, SIGMOID)) is not None:
            return _report_twice(
                study,
                loss,
                call,
                written,
                rule="loss/double-sigmoid",
                verdict=f"sigmoid is applied twice: here, and again by {call.name}",
                why="The second sigmoid receives values between 0 and 1 as logits, so its result "
                "is between 0.5 and 0.731.",
                fix="Pass the logits to the second sigmoid, and apply sigmoid elsewhere only "
                "where probabilities are needed.",
                confidence=Confidence.LIKELY,
            )
        given = argument(call, 0, "input")
        if given is None or call.name not in (
            "binary_cross_entropy_with_logits",
            "binary_cross_entropy",
        ):
            continue
        applied = made_by(given, SIGMOID)
        if applied is not None and call.name == "binary_cross_entropy":
            applied = made_by(applied.operands[0], SIGMOID) if applied.operands else None
        if applied is None:
            continue
        return _report_twice(
            study,
            loss,
            call,
            applied,
            rule="loss/double-sigmoid",
            verdict=f"sigmoid is applied twice: here, and again before {call.name}"
            if call.name == "binary_cross_entropy"
            else "sigmoid is applied before binary_cross_entropy_with_logits, which applies it "
            "again",
            why="The loss receives values between 0 and 1 as logits: the predicted probability "
            "is never below one half, and a negative sample never costs less than 0.693.",
            fix="Pass the logits to the loss, and apply sigmoid only where probabilities are "
            "needed.",
        )
    return None


@study_rule("loss/not-log-probabilities", Rank.CAUSE)
def not_log_probabilities(study: Study) -> Finding | None:
    """Probabilities where log-probabilities are expected.

    What happened
        nll_loss, kl_div and ctc_loss expect log-probabilities. They received probabilities or
        logits.
    Why it matters
        The loss is negative, or falls without bound, and its gradients are not those of the
        likelihood.
    How it is detected
        The exponentials of the input do not sum to one over the classes; the tape shows which call
        computed it.
    How to fix it
        Use log_softmax instead of softmax; or cross_entropy on the logits.
    When it stays silent
        For log-probabilities, including masked or weighted ones (focal loss); for hand-written
        losses, which can be negative for good reasons.
    Cost
        A replay of a few recorded steps if such a loss is used.
    """
    for loss, call in study.loss_calls():
        given = argument(call, 0, TAKES_LOGS[call.name]) if call.name in TAKES_LOGS else None
        content = study.content(given) if given is not None else None
        if (
            given is None
            or content is None
            or not content.is_floating_point()
            or content.dim() == 0
        ):
            continue
        axis = 1 if call.name == "nll_loss" and content.dim() > 1 else -1
        total = content.detach().double().exp().sum(axis)
        if bool(total.isnan().any()):
            # NaN belongs to another rule.
            continue
        if bool((content <= 0).all()) and (
            call.name == "kl_div" or any(each.name in LOGS for each in ancestors(given))
        ):
            # Pixels or bins on another axis, or weighted logarithms as in a focal loss.
            continue
        if bool(((total - 1).abs() < 0.02).float().mean() > 0.5):
            continue
        gathered = _gathered(given)
        softmax = made_by(gathered, SOFTMAX | SIGMOID)
        shared = _shared_with_target(softmax, call) if softmax is not None else None
        maker = softmax or given.call
        name = softmax.name if softmax is not None else "its input"
        value = study.content(loss.value)
        return silent_finding(
            study,
            "loss/not-log-probabilities",
            spot=shared
            or (place_of(softmax, study) if softmax is not None else spot_at(call.site)),
            call=softmax or call,
            step=study.step,
            symptom=Spot.of_site(call.site) if call.site is not None else None,
            verdict=f"{call.name} expects log-probabilities, got "
            f"{'probabilities' if softmax is not None else 'other values'}",
            what=f"the loss is {number_text(float(value.detach()))}"
            if value is not None and value.dim() == 0
            else "the loss is computed from it",
            why=f"The exponentials of log-probabilities sum to 1 for each sample. Those of {name} "
            f"sum to {number_text(float(total.reshape(-1)[0]))}.",
            fix=f"Use log_softmax for the input of {call.name} only: the same line computes the "
            f"target, which needs {name}."
            if shared is not None
            else f"Replace {name} with log_softmax."
            if softmax is not None
            else "Apply log_softmax first"
            + ("." if call.name == "ctc_loss" else ", or use cross_entropy."),
            patch=_as_log(softmax, study) if shared is None and gathered is given else None,
            confidence=Confidence.PROVEN,
            replay="bit-identical",
            chain=()
            if maker is None or maker.site is None
            else (Spot.of_site(maker.site).hop(f"{maker.name} gives {shape_text(given.shape)}"),),
        )
    return None


def _gathered(value: Value) -> Value:
    """The value before several results were written into one tensor and averaged: an ensemble."""
    for _ in range(NEAR):
        call = value.call
        if (
            call is None
            or call.forgotten
            or call.name not in ("mean", "__setitem__")
            or not call.operands
        ):
            break
        value = call.operands[-1 if call.name == "__setitem__" else 0]
    return value


@study_rule("loss/one-class", Rank.CAUSE)
def one_class(study: Study) -> Finding | None:
    """Cross entropy over a single class.

    What happened
        cross_entropy received one value per sample. Over one class the softmax is always 1.
    Why it matters
        The loss and all its gradients are exactly zero: nothing is learned.
    How it is detected
        The size of the class axis of the loss's input is 1.
    How to fix it
        Use binary_cross_entropy_with_logits for one output; or two outputs.
    When it stays silent
        Never where the class axis has one element.
    Cost
        A comparison for each call of a few recorded steps.
    """
    for loss, call in study.loss_calls():
        given = argument(call, 0, "input") if call.name == "cross_entropy" else None
        if given is None or len(given.shape) < 2 or given.shape[1] != 1 or call.site is None:
            continue
        spot = Spot.of_site(call.site)
        return silent_finding(
            study,
            "loss/one-class",
            spot=spot,
            call=call,
            step=study.step,
            symptom=Spot.of_site(loss.call.site) if loss.call.site is not None else None,
            verdict=f"cross_entropy over a single class: its input is {shape_text(given.shape)}",
            what="the loss and its gradients are zero",
            why="The softmax over a single value is always 1, and its logarithm is 0.",
            fix="Use binary_cross_entropy_with_logits (BCEWithLogitsLoss) with float targets for "
            "one output, or give the last layer two outputs.",
            patch=_as_binary(study, call, given),
            replay="bit-identical" if study.run is not None else None,
        )
    return None


def _as_binary(study: Study, call: Call, given: Value) -> str | None:
    """A diff to the loss for one output, where the targets fit it."""
    target = argument(call, 1, "target")
    if target is None or target.shape != given.shape or not target.dtype.is_floating_point:
        return None
    layer = study.layer_of(call)
    built = study.modules.built_at(layer) if isinstance(layer, nn.CrossEntropyLoss) else ()
    site = built[0] if built else call.site
    node = site.node() if site is not None else None
    func = node.func if isinstance(node, ast.Call) and not node.keywords else None
    if (
        site is None
        or not isinstance(func, ast.Attribute)
        or func.attr not in ("CrossEntropyLoss", "cross_entropy")
    ):
        return None
    name = "BCEWithLogitsLoss" if built else "binary_cross_entropy_with_logits"
    return diff_of(replace_node(site.filename, func, f"{ast.unparse(func.value)}.{name}"))


def _report_twice(
    study: Study,
    loss: Loss,
    call: Call,
    applied: Call,
    *,
    rule: str,
    verdict: str,
    why: str,
    fix: str,
    is_last: bool = True,
    confidence: Confidence = Confidence.PROVEN,
) -> Finding | None:
    # The loss term itself, not the sum that it may be part of.
    made = (
        call.outputs[0]
        if call.outputs and call.name not in SOFTMAX | SIGMOID | LOGS
        else loss.value
    )
    name = call.name if made is not loss.value else "the loss"
    shared = _shared_with_target(applied, call)
    without = (
        study.again(made, amend=lambda each, run: _skip(each, run, applied)) if is_last else None
    )
    fixed = without.contents.get(made) if without is not None else None
    before = study.content(made)
    other = _other_user(study, applied, call) if shared is None else None
    return silent_finding(
        study,
        rule,
        spot=shared or place_of(applied, study),
        call=applied,
        step=study.step,
        symptom=Spot.of_site(call.site) if call.site is not None else None,
        verdict=verdict,
        what=f"{name} is {number_text(float(before.detach()))}"
        if before is not None and before.dim() == 0
        else "the loss is computed from it",
        why=why,
        confidence=confidence,
        fix=f"{fix}{_used_at(other)}",
        patch=_without(applied, study) if shared is None and is_last and other is None else None,
        replay="bit-identical" if before is not None else None,
        counterfactual=f"without it, {name} of the same batch is "
        f"{number_text(float(fixed.detach()))}"
        if fixed is not None and fixed.dim() == 0
        else None,
    )


def _shared_with_target(applied: Call, loss: Call) -> Spot | None:
    """Where only the loss's input is computed, if the wrong line computes the target too.

    A change of the line itself would break the target.
    """
    target = argument(loss, 1, "target")
    for other in ancestors(target) if target is not None else ():
        if other.site == applied.site and other is not applied:
            apart = (
                mine
                for mine, theirs in zip(applied.stack, other.stack, strict=False)
                if mine != theirs
            )
            return spot_at(next(apart, None))
    return None


def _other_user(study: Study, applied: Call, loss: Call) -> Call | None:
    """Another call in a loss that uses the result of this line, and would miss it."""
    twins = (
        each for each in study.calls if each.name == applied.name and each.site == applied.site
    )
    made = {value for each in twins for value in each.outputs}
    path = {call.number: call for each in study.losses for call in study.path(each.value)}
    for _, each in sorted(path.items()):
        if each.inner or not made.intersection(each.operands):
            continue
        if each.name in SAME_NUMBERS:
            made.update(each.outputs)
        elif each.name != loss.name or argument(each, 0, "input") not in made:
            return each
    return None


def _used_at(other: Call | None) -> str:
    if other is None or other.site is None:
        return ""
    return (
        f" Line {other.site.f_lineno} of {Path(other.site.filename).name} still needs the result "
        "of this line."
    )


def _skip(each: Call, run: Run, applied: Call) -> None:
    if each is applied and applied.operands[0] in run.contents:
        run.contents[applied.outputs[0]] = run.contents[applied.operands[0]]


def _without(applied: Call, study: Study) -> str | None:
    """A diff that replaces the call with its operand, or its layer with nn.Identity()."""
    spot = place_of(applied, study)
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    own = applied.site.node() if applied.site is not None else None
    if node is not own:
        if _builds_others(applied, study) or not isinstance(study.layer_of(applied), ONLY_THAT):
            return None
        return diff_of(
            replace_node(
                spot.filename,
                node,
                "nn.Identity()"
                if ast.unparse(node.func).startswith("nn.")
                else "torch.nn.Identity()",
            )
        )
    if applied.site is None or applied.site.is_indirect:
        return None
    functional = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in (
        "F",
        "torch",
        "nn.functional",
        "torch.nn.functional",
    )
    method = (
        isinstance(node.func, ast.Attribute) and node.func.attr == applied.name and not functional
    )
    if method and isinstance(node.func, ast.Attribute):
        return diff_of(replace_node(spot.filename, node, ast.unparse(node.func.value)))
    return (
        diff_of(replace_node(spot.filename, node, ast.unparse(node.args[0]))) if node.args else None
    )


def _builds_others(applied: Call, study: Study) -> bool:
    """Whether the line that built a layer built others too: `ACTIVATIONS[name]()` in a loop."""
    layer = study.layer_of(applied)
    built = study.modules.built_at(layer)[:1] if layer is not None else ()
    return any(
        each is not layer and study.modules.built_at(each)[:1] == built
        for each in study.modules.known()
    )


def _as_log(softmax: Call | None, study: Study) -> str | None:
    """A diff to the logarithmic form, where the function is called or the layer is built."""
    if softmax is None or softmax.site is None or softmax.name != "softmax":
        return None
    layer = study.layer_of(softmax)
    built = study.modules.built_at(layer) if isinstance(layer, nn.Softmax) else ()
    site = built[0] if built else softmax.site
    node = site.node()
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(layer, nn.Softmax) != bool(built) or not isinstance(func, ast.Attribute):
        return None
    if func.attr not in ("softmax", "Softmax"):
        return None
    name = "LogSoftmax" if built else "log_softmax"
    return diff_of(replace_node(site.filename, func, f"{ast.unparse(func.value)}.{name}"))
