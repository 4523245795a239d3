"""Compare the backward of each custom autograd Function with finite differences of its forward."""

from __future__ import annotations

from whence.checking.places import place_of_backward
from whence.checking.recording import recording
from whence.checking.subject import Subject
from whence.checking.verdict import Verdict, failed, listed, passed, unchecked
from whence.rules.custom_functions import is_librarys, parameter_names
from whence.rules.gradient.wrong_custom import Difference, compare
from whence.rules.nonfinite.telling import number_text
from whence.tape.tape import CustomFunction


def check_custom_gradients(subject: Subject) -> Verdict:
    with recording() as seen:
        subject.run(subject.fresh())
    if seen.trouble:
        return unchecked(seen.trouble)
    compared: list[str] = []
    for call, contents in seen.customs:
        func = call.func
        if (
            not isinstance(func, CustomFunction)
            or func.__name__ in compared
            or is_librarys(func.kind)
        ):
            continue
        compared.append(func.__name__)
        found = compare(call, contents)
        if found is not None:
            return _verdict(func, found)
    if not compared:
        return passed("no custom autograd Function in the forward pass")
    return passed(f"{listed(compared)}: backward matches the derivative, or differs on purpose")


def _verdict(func: CustomFunction, found: Difference) -> Verdict:
    names = parameter_names(func.kind)
    name = names[found.number] if found.number < len(names) else f"input {found.number}"
    given = "None" if found.is_none else number_text(found.given)
    return failed(
        f"{func.__name__}.backward returns {given} for {name}; finite differences give "
        f"{number_text(found.true)}",
        why=(
            "Along a random direction, the forward changes by a different amount than the "
            "backward claims."
        ),
        fix=(
            f"Fix the gradient for {name}: the derivative of the forward, times the incoming "
            "gradient."
        ),
        place=place_of_backward(func.kind),
    )
