"""Training in eval mode, or evaluating in train mode.

What happened
    eval() was called for a validation and train() was not called afterwards; or a model with
    dropout or batch normalisation is evaluated in training mode, for example because `model.eval`
    lacks its parentheses; or F.dropout is called without training=, so it drops in both modes.
Why it matters
    In eval mode nothing is dropped and running statistics are not updated, so the model trains
    differently from its design. In training mode an evaluation is random, depends on the other
    samples of the batch, and changes the running statistics.
How it is detected
    The mode of the outermost module and its layers in recorded passes: an update while the whole
    model is in eval mode; a pass without gradients, whose results are only read, in which dropout
    drops or statistics are updated.
How to fix it
    Call model.train() before training, model.eval() before evaluating; pass training=self.training
    to F.dropout.
When it stays silent
    For models without dropout and batch normalisation, parts frozen in eval mode, several runs on
    one input (Monte Carlo dropout), a training metric of the current batch, passes that recompute
    statistics, and results that a loss uses (pseudo labels, momentum teachers).
Cost
    A check of a few recorded passes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from torch import nn

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.ledgers.study import Study
from whence.lineage.ancestry import behind_losses
from whence.rules.operations import LOSSES
from whence.rules.optimizer.by_hand import files_of
from whence.rules.optimizer.switching import back_to_training, into_evaluation
from whence.rules.rule import Rank, audit_rule, call_rule, study_rule
from whence.rules.shape.layers import root_of
from whence.rules.telling import call_finding, silent_finding
from whence.source.edits import diff_of, give_by_name
from whence.source.spots import Spot
from whence.source.text import enclosing
from whence.source.uncalled import UNMADE, called, uncalled_beside, uncalled_in_program
from whence.tape.scopes import Scope, buffers_within, has_modes, parts_of, weights_within
from whence.tape.tape import OUT_OF_TORCH, Call

DROPOUTS = frozenset(
    {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}
)
COMPARES = frozenset(
    {
        "eq",
        "__eq__",
        "ne",
        "__ne__",
        "argmax",
        "max",
        "topk",
        "item",
        "tolist",
        "numpy",
        "mean",
        "sum",
    }
)
NUMBERS = OUT_OF_TORCH | COMPARES | LOSSES
SEVERAL = 3
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@study_rule("optimizer/wrong-mode", Rank.GENERAL)
def training_in_eval_mode(study: Study) -> Finding | None:
    roots = {
        id(scope.module): scope
        for call in study.calls
        if (scope := root_of(call)) is not None and call.grad_mode
    }
    for scope in roots.values():
        model = scope.module
        if model is None or model.training or not any(_trained(model, study)):
            continue
        effective = [each for each in parts_of(model) if has_modes(each)]
        if not effective or any(each.training for each in effective):
            continue
        switched = study.loop.last(Kind.MODE, model)
        if switched is None or switched.detail["training"] or switched.site is None:
            continue
        after_training = switched.step > 0
        if not after_training and study.loop.last(Kind.LOAD, model) is not None:
            # Fine-tuning with everything fixed as loaded may be intended.
            continue
        kinds = ", ".join(sorted({type(each).__name__ for each in effective})[:3])
        unmade = uncalled_beside(study.stack[0] if study.stack else None, "train")
        return silent_finding(
            study,
            "optimizer/wrong-mode",
            spot=unmade or Spot.of_site(switched.site),
            symptom=Spot.of_site(study.stack[0]) if study.stack else None,
            step=study.step,
            op="eval",
            phase="forward",
            severity=Severity.ERROR if after_training else Severity.WARNING,
            confidence=Confidence.PROVEN if after_training else Confidence.LIKELY,
            verdict=f"the model trains in eval mode since step {switched.step}: {kinds} layers "
            "are inactive or frozen",
            what=f"step {study.step} updates weights of a model in eval mode",
            why="eval() stays in effect until train() is called."
            + (f" The first {switched.step} steps ran in training mode." if after_training else "")
            + (UNMADE if unmade is not None else ""),
            fix="Call model.train() before training continues: at the start of each epoch.",
            patch=called(unmade) or back_to_training(study, model, scope),
        )
    return None


def _trained(model: nn.Module, study: Study) -> Iterator[bool]:
    mine = study.entry.weights
    return (id(weight) in mine for weight in weights_within(model))


@audit_rule("optimizer/wrong-mode", Rank.GENERAL)
def evaluating_in_training_mode(audit: Audit) -> Finding | None:
    return _eval_not_called(audit) or _evaluated_in_training_mode(audit)


def _evaluated_in_training_mode(audit: Audit) -> Finding | None:
    runs: dict[int, list[Call]] = {}
    scopes: dict[int, Scope] = {}
    for call in audit.tape.calls:
        root = root_of(call)
        if (
            root is not None
            and not call.grad_mode
            and root.training
            and root.called_from
            and call.phase == "forward"
        ):
            runs.setdefault(id(root), []).append(call)
            scopes[id(root)] = root
    random = {
        key: calls for key, calls in runs.items() if any(_depends_on_mode(call) for call in calls)
    }
    if len(random) < 2 or not any(entry.steps for entry in audit.built):
        return None
    used_by_loss = behind_losses(audit.tape.calls)
    given = {key: _given_to(calls, scopes[key]) for key, calls in random.items()}
    inputs = Counter(given.values())
    trained = {
        id(value)
        for call in audit.tape.calls
        if call.number in used_by_loss
        for value in call.operands
    }
    # For some recorded passes, the training pass on the same batch is no longer recorded.
    metrics = {scopes[key].called_from for key in random if given[key] in trained}
    for key, calls in random.items():
        last = calls[-1]
        effect = next(call for call in calls if _depends_on_mode(call))
        if (
            given[key] is None
            or inputs[given[key]] >= SEVERAL
            or scopes[key].called_from in metrics
        ):
            continue
        # Without gradients a loss is only a metric.
        if any(call.number in used_by_loss for call in calls) or not _comes_to(
            last, audit, NUMBERS
        ):
            continue
        if not any(
            id(value.tensor) in entry.weights
            for call in calls
            for value in call.operands
            for entry in audit.built
            if entry.steps
        ):
            continue
        site = scopes[key].called_from[0]
        return silent_finding(
            audit,
            "optimizer/wrong-mode",
            spot=Spot.of_site(site),
            symptom=Spot.of_site(effect.site) if effect.site is not None else None,
            step=last.step,
            op=effect.name,
            phase="forward",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"the model is evaluated in training mode: {effect.name} "
            + (
                "drops at random"
                if effect.name in DROPOUTS
                else "uses and updates the statistics of this batch"
            ),
            what="a pass without gradients whose results are read as a metric",
            why="Without model.eval(), dropout is active and batch normalisation uses the "
            "current batch. The metric is not that of the trained model.",
            fix="Call model.eval() before the evaluation and model.train() after it.",
            patch=into_evaluation(audit, scopes[key]),
        )
    return None


def _eval_not_called(audit: Audit) -> Finding | None:
    """Report `model.eval` as a statement, without a call: this needs no recorded pass."""
    has_models = any(has_modes(part) for each in audit.modules.roots() for part in parts_of(each))
    spots = (
        uncalled_in_program("eval", files_of(audit))
        if has_models and any(entry.steps for entry in audit.built)
        else []
    )
    if not spots:
        return None
    return silent_finding(
        audit,
        "optimizer/wrong-mode",
        spot=spots[0],
        symptom=spots[0],
        step=audit.step,
        op="eval",
        phase="forward",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"`{spots[0].code}` is not called: the code after it runs in training mode",
        what="the statement has no effect",
        why="In training mode dropout is active and batch normalisation uses the current "
        f"batch.{UNMADE}",
        fix="Add the parentheses: model.eval().",
        patch=called(spots[0]),
    )


def _given_to(calls: list[Call], root: Scope) -> int | None:
    """The first input of a pass: neither a weight of the model nor computed in the pass."""
    model = root.module
    own = (
        {id(each) for each in (*weights_within(model), *buffers_within(model))}
        if model is not None
        else set()
    )
    within = {call.number for call in calls}
    for call in calls:
        for value in call.operands:
            if id(value.tensor) not in own and (
                value.call is None or value.call.number not in within
            ):
                return id(value)
    return None


def _depends_on_mode(call: Call) -> bool:
    if call.name in DROPOUTS:
        share = call.args[1] if len(call.args) > 1 else call.kwargs.get("p", 0.5)
        training = call.args[2] if len(call.args) > 2 else call.kwargs.get("training", True)
        return bool(training) and share != 0
    if call.name == "batch_norm":
        training = call.args[5] if len(call.args) > 5 else call.kwargs.get("training", False)
        statistics = call.args[1] if len(call.args) > 1 else call.kwargs.get("running_mean")
        return bool(training) and statistics is not None
    return False


def is_read(last: Call, audit: Audit) -> bool:
    """Whether the program reads values from the result of a pass."""
    return _comes_to(last, audit, OUT_OF_TORCH | COMPARES)


def _comes_to(last: Call, audit: Audit, names: frozenset[str]) -> bool:
    reached = {id(value) for value in last.outputs}
    for call in audit.tape.calls:
        if call.number > last.number and any(id(value) in reached for value in call.operands):
            if call.name in names:
                return True
            reached |= {id(value) for value in call.outputs}
    return False


@call_rule("optimizer/wrong-mode")
def dropout_in_eval_mode(call: Call) -> Finding | None:
    if (
        call.name not in DROPOUTS
        or not isinstance(call.module, Scope)
        or call.module.training
        or call.site is None
    ):
        return None
    if not _depends_on_mode(call) or _sets_training(call):
        return None
    verdict = f"F.{call.name} drops in eval mode: it is called without training="
    return call_finding(
        call,
        "optimizer/wrong-mode",
        verdict=verdict,
        why="The function does not know the module's mode. Its default is training=True, so "
        "evaluations are random.",
        fix="Pass training=self.training, or use an nn.Dropout layer.",
        patch=_with_mode(call),
        what=f"{call.module.kind} is in eval mode",
    )


def _with_mode(call: Call) -> str | None:
    """Add `training=self.training`, in a method of the module that runs."""
    node = call.site.node() if call.site is not None else None
    module = call.module.module if isinstance(call.module, Scope) else None
    around = enclosing(node, *FUNCTIONS) if node is not None else None
    if (
        call.site is None
        or not isinstance(node, ast.Call)
        or not isinstance(around, ast.FunctionDef)
    ):
        return None
    method = getattr(type(module), call.site.function, None)
    if getattr(method, "__code__", None) is not call.site.f_code or not around.args.args:
        return None
    return diff_of(
        give_by_name(call.site.filename, node, "training", f"{around.args.args[0].arg}.training")
    )


def _sets_training(call: Call) -> bool:
    """Whether the program passes training= itself, as for Monte Carlo dropout."""
    node = call.site.node() if call.site is not None else None
    if not isinstance(node, ast.Call):
        return True
    return len(node.args) > 2 or any(each.arg in ("training", None) for each in node.keywords)
