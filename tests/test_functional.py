"""torch.func transforms: run eagerly they give the same results, which are followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from forking import plain_run, whence_run
from torch.func import grad, grad_and_value, vmap
from torch.utils._pytree import tree_leaves

from whence.lineage.eagerly import Eagerly
from whence.sensors.transforms import TransformSensor
from whence.tape.transform import Transform


class Onlooker:
    def __init__(self) -> None:
        self.losses: list[float] = []

    def begins(self, weights: dict[str, torch.Tensor]) -> None: ...

    def has_loss(self, loss: torch.Tensor) -> None:
        self.losses.append(loss.item())

    def has_gradients(
        self, weights: list[torch.Tensor], gradients: list[torch.Tensor | None]
    ) -> None:
        assert len(weights) == len(gradients)


class Keeper:
    """A listener that keeps the sensor's events."""

    def __init__(self) -> None:
        self.seen: list[tuple[Transform, Any]] = []

    def transform_began(self, transform: Transform) -> None: ...

    def transform_ended(self, transform: Transform, result: Any) -> None:
        self.seen.append((transform, result))

    def sensor_failed(self, sensor: str, error: BaseException) -> None:
        raise error


def loss_of(weights: dict[str, Any], x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return scale * (torch.tanh(x @ weights["in"]) @ weights["out"][0]).square().mean()


def with_aux(weights: dict[str, Any], x: torch.Tensor) -> tuple[torch.Tensor, Any]:
    out = x @ weights["in"]
    return out.square().sum(), {"out": out}


def slope_of(weights: dict[str, Any], point: torch.Tensor) -> torch.Tensor:
    return grad(lambda p: torch.sin(p @ weights["in"]).sum())(point).square().sum()


torch.manual_seed(0)
WEIGHTS = {"in": torch.randn(3, 4), "out": [torch.randn(4, 1)]}
STACKED = {"in": torch.randn(5, 3, 4), "out": [torch.randn(5, 4, 1)]}
X = torch.randn(6, 3)

CALLS: dict[str, Callable[[], Any]] = {
    "grad": lambda: grad(loss_of)(WEIGHTS, X, scale=2.0),
    "value too": lambda: grad_and_value(loss_of)(WEIGHTS, X),
    "aux": lambda: grad_and_value(with_aux, has_aux=True)(WEIGHTS, X),
    "two arguments": lambda: grad(loss_of, argnums=(0, 1))(WEIGHTS, X),
    "the last argument": lambda: grad(loss_of, argnums=-1)(WEIGHTS, X),
    "each sample": lambda: vmap(grad(loss_of), in_dims=(None, 0))(WEIGHTS, X),
    "each member": lambda: vmap(grad_and_value(loss_of), in_dims=(0, None), out_dims=(0, 0))(
        STACKED, X
    ),
    "another axis": lambda: vmap(grad(loss_of), in_dims=(None, 1), out_dims=1)(WEIGHTS, X.T),
    "gradient of a gradient": lambda: grad(slope_of)(WEIGHTS, X[0]),
    "each of these": lambda: vmap(grad(slope_of), in_dims=(None, 0))(WEIGHTS, X),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_transform_run_eagerly_gives_the_same(call: Callable[[], Any]) -> None:
    keeper = Keeper()
    sensor = TransformSensor(keeper)
    sensor.start()
    try:
        plain = call()
    finally:
        sensor.stop()
    [(transform, result)] = keeper.seen
    assert transform.gradients
    onlooker = Onlooker()
    eager = Eagerly(onlooker).run(transform.name, transform.args, transform.kwargs)
    if transform.name == "grad_and_value_impl":
        plain = result
    assert onlooker.losses
    one, other = tree_leaves(plain), tree_leaves(eager)
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        torch.testing.assert_close(first, second.detach())


UPDATE = """
    import torch
    from torch.func import grad

    torch.manual_seed(0)
    weights = {"slope": torch.randn(4), "base": torch.zeros(())}
    x = torch.randn(64, 4)
    y = x.sum(1)

    def loss_of(weights, x, y):
        return (x @ weights["slope"] + weights["base"] - y).relu().mean()

    for step in range(300):
        slopes = grad(loss_of)(weights, x, y)
        length = sum(each.square().sum() for each in slopes.values()).sqrt()
        weights = {name: each - 0.05 * slopes[name] / length for name, each in weights.items()}
    print(weights)
"""


def test_weights_that_the_update_spoils_are_told(tmp_path: Path) -> None:
    """The gradients are finite, finally zero, and divided by their length."""
    script = tmp_path / "train.py"
    script.write_text(dedent(UPDATE))
    ran = whence_run(script, cwd=tmp_path)
    assert [each["rule"] for each in ran.loud] in (["nonfinite/update"], ["nonfinite/forward"])
    assert ran.stdout == plain_run(script, cwd=tmp_path).stdout
    assert ran.document["steps"] == 300


READ_ONLY = """
    import warnings

    import numpy as np
    import torch
    from torch.func import grad_and_value

    warnings.simplefilter("ignore")
    np.arange(64, dtype=np.float32).tofile("levels.bin")
    levels = torch.from_numpy(np.memmap("levels.bin", dtype=np.float32, mode="r")).view(16, 4)
    weights = torch.zeros(4)
    for step in range(5):
        slopes, loss = grad_and_value(lambda w: (levels @ w - 1).square().mean())(weights)
        slopes, loss = grad_and_value(lambda w, x: (x @ w - 1).square().mean())(weights, levels)
        weights = weights - 1e-5 * slopes
    print(loss.item())
"""


def test_inputs_in_memory_that_cannot_be_written_to(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(READ_ONLY))
    ran = whence_run(script, cwd=tmp_path)
    assert ran.code == 0
    assert ran.stdout == plain_run(script, cwd=tmp_path).stdout
    assert not ran.loud
