"""Every rule is documented, and none fails on unusual tensors."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import pytest
import torch

from whence.rules.rule import Rule, all_rules
from whence.rules.rule import rule as register
from whence.source.handlers import Fate
from whence.source.sites import Site, caller_frame
from whence.tape.batches import LoaderBook
from whence.tape.failed import FailedCall
from whence.tape.scopes import ModuleBook
from whence.tape.tape import Tape

HEADINGS = [
    "What happened",
    "Why it matters",
    "How it is detected",
    "How to fix it",
    "When it stays silent",
    "Cost",
]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_rule_is_documented_under_the_fixed_headings(rule: Rule) -> None:
    lines = rule.documentation.splitlines()
    assert lines[0].endswith(".")
    assert len(lines[0]) < 80
    assert [line for line in lines[1:] if line and not line.startswith(" ")] == HEADINGS


def test_the_order_of_the_rules_does_not_depend_on_which_are_loaded() -> None:
    code = """
from whence.rules.rule import all_rules, audit_rules, study_rules
studies, audits = ([id for id, _ in asked()] for asked in (study_rules, audit_rules))
assert studies == [each.id for each in all_rules() if each.inspect]
assert audits == [each.id for each in all_rules() if each.review]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


NAN = float("nan")
STRANGE = {
    "empty": torch.empty(0, 3),
    "no axes": torch.tensor(1.0),
    "meta": torch.empty(2, 3, device="meta"),
    "complex": torch.ones(2, 3, dtype=torch.complex64),
    "integer": torch.ones(2, 3, dtype=torch.int8),
    "bool": torch.ones(2, 3, dtype=torch.bool),
    "sparse": torch.eye(3).to_sparse(),
    "NaN": torch.full((2, 3), NAN),
    "one value": torch.ones(1, 1, 1, 1),
    "many axes": torch.ones(1, 2, 1, 2, 1, 2),
}
OPERATIONS = [
    "linear",
    "conv2d",
    "cross_entropy",
    "binary_cross_entropy",
    "mse_loss",
    "embedding",
    "batch_norm",
    "layer_norm",
]
OTHERS = [
    "add",
    "cat",
    "matmul",
    "reshape",
    "squeeze",
    "stack",
    "max_pool2d",
    "backward",
    "requires_grad_",
    "tensor",
    "nonsense",
]


def _failed(name: str, *args: Any) -> FailedCall:
    tape, modules, loaders = Tape(), ModuleBook(), LoaderBook()
    func: Any = (
        getattr(torch.nn.functional, name, None)
        or getattr(torch, name, None)
        or getattr(torch.Tensor, name, len)
    )
    frame = caller_frame(0)
    call = tape.begin(func, args, {}, stack=(Site.of(frame),), module=None, step=0, phase="forward")
    call.name = name
    return FailedCall(
        call=call,
        func=func,
        args=args,
        kwargs={},
        exception=RuntimeError("made up"),
        frames=[frame],
        fate=Fate.UNCAUGHT,
        tape=tape,
        modules=modules,
        loaders=loaders,
        record=contextlib.nullcontext,
    )


@pytest.mark.parametrize("one", STRANGE)
@pytest.mark.parametrize("name", [*OPERATIONS, *OTHERS])
@pytest.mark.filterwarnings("ignore")
def test_rules_survive_strange_tensors(name: str, one: str) -> None:
    for other in STRANGE.values():
        failed = _failed(name, STRANGE[one], other)
        for rule in all_rules():
            if rule.diagnose is not None:
                rule.diagnose(failed)


def test_a_rule_has_one_function_for_each_question() -> None:
    all_rules()
    with pytest.raises(ValueError, match="two functions"):
        register("shape/mismatch")(lambda _: None)
