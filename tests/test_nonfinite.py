"""NaN and Inf: caught before they reach the weights, replayed, and silent if they do no harm."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from forking import Ran, plain_run, whence_run
from torch import nn

import whence.watching.pacing
from whence.lineage.births import Contents, find_birth
from whence.repro import safetensors
from whence.tape.finite import all_finite
from whence.tape.portions import Portions
from whence.tape.tape import Tape


def run(folder: Path, text: str, *options: str) -> Ran:
    script = folder / "program.py"
    script.write_text(dedent(text))
    return whence_run(script, *options, cwd=folder)


LATE = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x = torch.rand(160, 4) + 0.1
    x[137] = -1.0
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch, (rows,) in enumerate(DataLoader(TensorDataset(x), batch_size=8)):
        loss = (model(rows) + torch.log(rows.sum(1, keepdim=True))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LATE_BY_HAND = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    x, y = torch.rand(160, 4) + 0.1, torch.rand(160, 1)
    x[137] = -1.0
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for start in range(0, 160, 8):
        rows, target = x[start:start + 8], y[start:start + 8]
        loss = (model(rows) + torch.log(rows.sum(1, keepdim=True)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "line"), [(LATE, 12), (LATE_BY_HAND, 12)], ids=["loader", "by hand"]
)
def test_a_step_that_was_not_recorded_is_replayed_from_one_that_was(
    text: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whence.watching.pacing.Pace, "_is_dear", lambda pace: pace.tape.count > 0)
    (finding,) = run(tmp_path, text).loud
    assert (finding["rule"], finding["origin"]["line"], finding["origin"]["op"]) == (
        "nonfinite/forward",
        line,
        "log",
    )
    assert finding["origin"]["step"] == 17
    assert finding["proof"]["replay"].startswith("bit-identical, from the recording of step")
    assert finding["confidence"] == "proven"


def test_the_sample_of_a_replayed_step_is_that_steps_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whence.watching.pacing.Pace, "_is_dear", lambda pace: pace.tape.count > 0)
    (finding,) = run(tmp_path, LATE).loud
    assert finding["origin"]["sample"]["dataset_index"] == 137
    assert "without sample 137, the loss is" in finding["proof"]["counterfactual"]


def test_stop_on_error_stops_before_the_weights_are_touched(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        try:
            for step in range(6):
                x = torch.rand(4, 3) if step < 4 else torch.zeros(4, 3)
                loss = (model(x) * torch.log(x.sum())).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        finally:
            state = [each for state in optimizer.state.values() for each in state.values()]
            print(step, all(torch.isfinite(each).all() for each in [*model.parameters(), *state]))
    """
    ran = run(tmp_path, text, "--stop-on", "error")
    assert ran.code == 1
    assert ran.stdout == "4 True\n"
    assert run(tmp_path, text).stdout == "5 False\n"


COMPILED = """
    import torch
    from torch import nn
    from torch._dynamo.utils import counters

    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 1)

        def forward(self, x):
            return self.fc(x) + torch.log(x.sum(1, keepdim=True))

    net = Net()
    compiled = torch.compile(net, backend="aot_eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.rand(48, 4)
    x[37] = -1.0
    for start in range(0, 48, 8):
        loss = compiled(x[start:start + 8]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
"""


def test_compiled_code_stays_compiled_and_is_replayed_eagerly(tmp_path: Path) -> None:
    ran = run(tmp_path, COMPILED)
    assert ran.stdout == plain_run(tmp_path / "program.py", cwd=tmp_path).stdout == "1 0\n"
    (finding,) = ran.loud
    assert (finding["rule"], finding["origin"]["line"], finding["origin"]["op"]) == (
        "nonfinite/forward",
        14,
        "log",
    )
    assert "run eagerly" in finding["proof"]["replay"]


def test_silent_where_no_weight_is_harmed(tmp_path: Path) -> None:
    text = """
        import torch

        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(5):
            optimizer.zero_grad()
            (w * torch.tensor([1.0, float("inf"), 1.0])).sum().backward()
            if not torch.isfinite(w.grad).all():
                continue
            optimizer.step()
        for step in range(5):
            optimizer.zero_grad()
            w.square().sum().backward()
            optimizer.step()
        best = torch.tensor(float("inf"))
        print(min(best, w.sum()).item())
    """
    assert [each for each in run(tmp_path, text).loud if each["severity"] == "error"] == []


def test_one_fused_look_changes_no_gradient() -> None:
    weights = [nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(4, dtype=torch.float64))]
    for each in weights:
        each.grad = torch.randn_like(each)
    bits: list[Any] = [
        (each.grad.clone(), each.grad._version) for each in weights if each.grad is not None
    ]
    assert all_finite([each.grad for each in weights])
    for each, (gradient, version) in zip(weights, bits, strict=True):
        assert each.grad is not None
        assert torch.equal(each.grad, gradient)
        assert each.grad._version == version


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([1.0, float("nan")]),
        torch.tensor([float("-inf")], dtype=torch.float64),
        torch.tensor([1.0, float("inf")], dtype=torch.float16),
        torch.tensor([1.0, float("nan")], dtype=torch.bfloat16),
        torch.tensor([complex(1, float("nan"))]),
        torch.tensor([float("nan")]).expand(4),
        torch.sparse_coo_tensor(
            torch.tensor([[1]]), torch.tensor([float("nan")]), (3,), check_invariants=True
        ),
    ],
    ids=lambda each: f"{each.dtype}-{each.layout}",
)
def test_the_fused_look_sees_every_kind_of_gradient(tensor: torch.Tensor) -> None:
    assert not all_finite([torch.ones(2), tensor])
    assert all_finite([torch.ones(2), torch.zeros_like(tensor)])


def test_safetensors_are_as_others_read_them() -> None:
    data = safetensors({"a": torch.tensor([[1.5, 2.0]]), "b": torch.tensor([], dtype=torch.int64)})
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 8 == 0
    assert data[8 : 8 + length].startswith(
        b'{"a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}'
    )
    assert torch.frombuffer(bytearray(data[8 + length :]), dtype=torch.float32).tolist() == [
        1.5,
        2.0,
    ]


MASKED = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    rows = [([2, 3, 4], 0), ([5, 2], 1), ([1], 0), ([3, 3], 1)] * 3

    def collate(rows):
        ids = nn.utils.rnn.pad_sequence([torch.tensor(each) for each, _ in rows], batch_first=True)
        seen = (ids != 0) & (ids != 1)
        return ids, seen, torch.tensor([label for _, label in rows])

    table, out = nn.Embedding(6, 4), nn.Linear(4, 2)
    sgd = torch.optim.SGD([*table.parameters(), *out.parameters()], lr=0.1)
    for ids, seen, label in DataLoader(rows, batch_size=4, collate_fn=collate):
        words = table(ids)
        scores = words.sum(-1).masked_fill(~seen, float("-inf"))
        pooled = (scores.softmax(1).unsqueeze(-1) * words).sum(1)
        loss = nn.functional.cross_entropy(out(pooled), label)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
"""


def test_a_mask_that_hides_everything_is_led_back_to_where_it_was_made(tmp_path: Path) -> None:
    (finding,) = run(tmp_path, MASKED).loud
    assert (finding["rule"], finding["origin"]["op"]) == ("nonfinite/forward", "softmax")
    assert [(each["line"], each["what"]) for each in finding["chain"]][:2] == [
        (11, "the mask is created here"),
        (18, "masked_fill writes the -inf"),
    ]


@pytest.mark.parametrize(
    ("made", "more"), [([1, 1, 1], False), ([4, 4, 1], True), ([2, 1, 1], True)]
)
def test_portions_are_known_by_the_last_two_steps(made: list[int], more: bool) -> None:
    portions = Portions()
    assert portions.more_to_come
    *before, now = made
    for backwards in before:
        portions.made = backwards
        portions.stepped()
    portions.made = now
    assert portions.more_to_come is more


def test_reading_a_gradient_is_not_the_origin_of_its_nan() -> None:
    tape, weight = Tape(), nn.Parameter(torch.ones(3))
    weight.grad = torch.full((3,), torch.nan)

    def enter(func: Any, *args: Any) -> torch.Tensor:
        call = tape.begin(func, args, {}, stack=(), module=None, step=0, phase="forward")
        result = func(*args)
        tape.finish(call, result, [])
        return result

    gradient = enter(torch.Tensor.grad.__get__, weight)
    norm = enter(torch.sum, gradient)
    contents = Contents(tape)
    born = find_birth(tape.value_of(norm), contents, lambda _: False)
    assert born.call is None
    assert born.leaf is tape.value_of(gradient)


QUEUED = """
import asyncio
import torch
from torch import nn

async def produce(queue):
    for step in range(40):
        x = torch.randn(20, 7, 6)
        if step == 23:
            x = x / (x[..., :1] - x[..., :1])
        await queue.put((x, torch.randint(0, 4, (20,))))
    await queue.put(None)

async def consume(queue, model, optimizer):
    while (batch := await queue.get()) is not None:
        loss = nn.functional.cross_entropy(model(batch[0]).mean(1), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

async def main():
    model = nn.Sequential(nn.Linear(6, 12), nn.Linear(12, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    queue = asyncio.Queue(maxsize=2)
    await asyncio.gather(produce(queue), consume(queue, model, optimizer))

asyncio.run(main())
"""


def test_inf_made_before_the_last_update_is_led_to_its_division(tmp_path: Path) -> None:
    script = tmp_path / "queued.py"
    script.write_text(QUEUED)
    (finding,) = whence_run(script, cwd=tmp_path).loud
    assert finding["origin"]["line"] == 10
