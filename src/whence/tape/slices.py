"""The calls of a pass that a value depends on, and those that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whence.tape.tape import Call, CustomFunction, Value, flatten
from whence.torch_internals import graph_task

BACKWARDS = ("backward", "grad")
RANDOM = (
    "rand", "normal", "bernoulli", "dropout", "multinomial", "uniform", "exponential", "poisson",
    "random_", "rrelu",
)  # fmt: skip
# These have their own dropout.
WITH_DROPOUT = frozenset(
    {
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
        "multi_head_attention_forward",
        "scaled_dot_product_attention",
    }
)


def is_final(call: Call) -> bool:
    """Return whether a call computes gradients for an update.

    With create_graph a gradient is part of a later loss.
    """
    given = call.kwargs.get(
        "create_graph", call.args[4] if call.name == "grad" and len(call.args) > 4 else False
    )
    return call.name == "backward" or (call.name == "grad" and not given)


def is_within_backward() -> bool:
    """Return whether autograd is running in this thread.

    What runs now is then a hook, or the backward of a Function.
    """
    return graph_task() >= 0


def is_random(call: Call) -> bool:
    """Return whether drawing random numbers is the purpose of a call."""
    return any(word in call.name for word in RANDOM)


def may_draw(call: Call) -> bool:
    """Return whether a call may draw random numbers."""
    return (
        is_random(call)
        or (call.name in WITH_DROPOUT and _has_dropout(call))
        or isinstance(call.func, CustomFunction)
    )


def _has_dropout(call: Call) -> bool:
    """Return whether dropout is active.

    Its probability is the only float argument of most of these calls.
    """
    return any(isinstance(each, float) and each > 0 for each in flatten((call.args, call.kwargs)))


def needed_calls(
    calls: Sequence[Call],
    targets: Sequence[Value],
    is_given: Callable[[Value], bool],
    *,
    backward: bool,
    draws: bool = True,
) -> tuple[Call, ...]:
    """Return the calls that targets depend on, and other random draws.

    Backward passes are included if `backward` is set.
    """
    wanted = set(targets)
    memory = {value.storage for value in targets if value.storage}
    found: list[Call] = []
    last = max((value.call.number for value in targets if value.call is not None), default=-1)
    for call in reversed(calls):
        if (
            call.inner
            or call.phase in ("data", "optimizer")
            or (call.number > last and not backward)
        ):
            continue
        is_wanted = (
            any(value in wanted and not is_given(value) for value in call.outputs)
            or any(value.storage in memory for value in call.changed)
            or (backward and call.name in BACKWARDS)
            or (draws and is_random(call))
        )
        if is_wanted:
            found.append(call)
            wanted.update(call.operands)
            memory.update(
                value.storage for value in call.operands if value.storage and not is_given(value)
            )
    return tuple(reversed(found))
