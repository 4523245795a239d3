"""Calls that torch's methods reject: diagnosed from operands, reported where the fix belongs."""

from __future__ import annotations

from pathlib import Path

import pytest
from forking import whence_run

NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width=4, classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Linear(width, classes)
    def forward(self, x):
        return self.head(self.body(x))
net = Net()
state = net.state_dict()
"""
LINES = NET.count("\n")

# The program after NET; the reported line; a part of the verdict; a part of the patch, if any.
STATES = {
    "a part on several devices": (
        "net.body = nn.DataParallel(net.body)\nNet().load_state_dict(net.state_dict())",
        2,
        "contain 'module.'",
        "k.replace('.module.', '.')",
    ),
    "into a wrapped model": (
        "wrapped = nn.DataParallel(Net())\nwrapped.load_state_dict(state)",
        2,
        "the model's keys start with 'module.'",
        "+wrapped.module.load_state_dict(state)",
    ),
    "into a part of a container": (
        "both = nn.Sequential(Net(), nn.Linear(3, 1))\nboth.load_state_dict(state)",
        2,
        "the model's keys start with '0.'",
        "+both[0].load_state_dict(state)",
    ),
    "one of two alike": (
        "pair = nn.ModuleDict({'student': Net(), 'teacher': Net()})\n"
        "net.load_state_dict(pair.state_dict())",
        2,
        "start with 'student.'",
        None,
    ),
    "a whole module": (
        "Net().load_state_dict(net)",
        1,
        "a whole module",
        "+Net().load_state_dict(net.state_dict())",
    ),
    "a module in a checkpoint": (
        "kept = {'epoch': 3, 'net': net}\nNet().load_state_dict(kept)",
        2,
        "['net'].state_dict()",
        "load_state_dict(kept['net'].state_dict())",
    ),
    "deep in a checkpoint, with a prefix": (
        "kept = {'run': {'weights': nn.DataParallel(net).state_dict()}}\n"
        "Net().load_state_dict(kept)",
        2,
        "['run']['weights']",
        None,
    ),
    "an optimizer's state": (
        "adam = torch.optim.Adam(net.parameters())\nnet.load_state_dict(adam.state_dict())",
        2,
        "an optimizer's state",
        None,
    ),
    "a file's name": ("net.load_state_dict('net.pt')", 1, "got a str", None),
    "another width": (
        "wide = Net(width=8)\nwide.load_state_dict(state)",
        1,
        "body.0.weight is (4, 5)",
        None,
    ),
    "another width within a layer of torch's": (
        "def block(d):\n    return nn.TransformerEncoderLayer(8, 2, d)\n"
        "block(16).load_state_dict(block(32).state_dict())",
        2,
        "linear1.weight is (32, 8) in the checkpoint but (16, 8)",
        None,
    ),
    "another depth": (
        "deep = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))\n"
        "nn.Sequential(*(nn.Linear(4, 4) for _ in range(2))).load_state_dict(deep.state_dict())",
        2,
        "has extra 2.weight, 2.bias",
        None,
    ),
    "another model": ("nn.LSTM(5, 4).load_state_dict(state)", 1, "does not match the model", None),
}


@pytest.mark.parametrize("name", STATES)
def test_states_that_a_module_refuses(name: str, tmp_path: Path) -> None:
    program, line, verdict, patch = STATES[name]
    script = tmp_path / "load.py"
    script.write_text(NET + program + "\n")
    ran = whence_run(script, cwd=tmp_path)
    (finding,) = ran.loud
    assert (finding["rule"], finding["origin"]["line"]) == (
        "checkpoint/not-loaded",
        LINES + line,
    ), ran.stderr
    assert verdict in finding["verdict"]
    assert (patch in finding["patch"]) if patch is not None else finding["patch"] is None
    assert ran.document["not_watched"] == []


# Programs that catch the exception, and the resulting severity.
CAUGHT = {
    "a prefix nobody wants": (
        "try:\n    Net().load_state_dict(nn.DataParallel(net).state_dict())\n"
        "except RuntimeError as error:\n    print(error)",
        "error",
    ),
    "other sizes, expected": (
        "try:\n    Net(8).load_state_dict(state)\nexcept RuntimeError:\n    print('from scratch')",
        "info",
    ),
    "loaded again otherwise": (
        "try:\n    net.load_state_dict({'net': state})\nexcept RuntimeError:\n"
        "    net.load_state_dict(state)",
        "info",
    ),
    "an optimizer that begins anew": (
        "old = torch.optim.Adam(net.parameters()).state_dict()\n"
        "try:\n    torch.optim.Adam(net.head.parameters()).load_state_dict(old)\n"
        "except ValueError:\n    print('new')",
        "info",
    ),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_refusals_that_are_caught(name: str, tmp_path: Path) -> None:
    program, severity = CAUGHT[name]
    script = tmp_path / "caught.py"
    script.write_text(NET + program + "\n")
    ran = whence_run(script, cwd=tmp_path)
    assert [each["severity"] for each in ran.findings] == [severity], ran.stderr
    assert ran.code == 0


OPTIMIZERS = {
    "a module": (
        "torch.optim.SGD(net, lr=0.1)",
        "optimizer/no-parameters",
        1,
        "+torch.optim.SGD(net.parameters(), lr=0.1)",
    ),
    "a tensor": (
        "torch.optim.SGD(net.head.weight, 0.1)",
        "optimizer/no-parameters",
        1,
        "SGD([net.head.weight], 0.1)",
    ),
    "names": (
        "torch.optim.SGD(dict(net.named_parameters()), 0.1)",
        "optimizer/no-parameters",
        1,
        None,
    ),
    "a number": ("torch.optim.SGD(3, 0.1)", "optimizer/no-parameters", 1, None),
    "a scaled parameter": (
        "scale = nn.Parameter(torch.ones(3)) * 0.1\ntorch.optim.SGD([scale], 0.1)",
        "device/parameter-copy",
        1,
        "+scale = nn.Parameter(torch.ones(3) * 0.1)",
    ),
    "a result of what the model has": (
        "flat = net.head.weight.view(-1)\ntorch.optim.SGD([flat], 0.1)",
        "device/parameter-copy",
        1,
        None,
    ),
    "added later": (
        "opt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "gain = torch.ones(3, requires_grad=True) / 3\nopt.add_param_group({'params': [gain]})",
        "device/parameter-copy",
        2,
        "+gain = (torch.ones(3) / 3).requires_grad_()",
    ),
    "a whole checkpoint": (
        "opt = torch.optim.Adam(net.parameters())\n"
        "opt.load_state_dict({'net': state, 'opt': opt.state_dict()})",
        "checkpoint/incomplete-resume",
        2,
        "['opt'])",
    ),
    "another model's state": (
        "def train(part):\n    opt = torch.optim.Adam(part.parameters())\n"
        "    part(torch.ones(1, part.in_features)).sum().backward()\n    opt.step()\n"
        "    return opt\n"
        "one, other = train(net.head), train(nn.Linear(7, 7, bias=False))\n"
        "one.load_state_dict(other.state_dict())",
        "checkpoint/incomplete-resume",
        7,
        None,
    ),
    "a saved run of other groups": (
        "old = {'state': {}, 'param_groups': [{'params': [0, 1]}, {'params': [2]}]}\n"
        "opt = torch.optim.Adam(net.parameters())\nopt.load_state_dict(old)",
        "checkpoint/incomplete-resume",
        2,
        None,
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_an_optimizer_refuses(name: str, tmp_path: Path) -> None:
    program, rule, line, patch = OPTIMIZERS[name]
    script = tmp_path / "optimizer.py"
    script.write_text(NET + program + "\n")
    ran = whence_run(script, cwd=tmp_path)
    (finding,) = ran.loud
    assert (finding["rule"], finding["origin"]["line"]) == (rule, LINES + line), ran.stderr
    assert (patch in finding["patch"]) if patch is not None else finding["patch"] is None
    assert ran.document["not_watched"] == []


LOOP = """
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(22, 5), torch.randn(22, 3)), batch_size=4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
def step(x, y):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
    schedule.step()
Cycle = torch.optim.lr_scheduler.OneCycleLR
"""
# The schedule; the reported line; a part of the reason.
SCHEDULES = {
    "epochs": ("epochs = 3\nschedule = Cycle(opt, 0.1, total_steps=epochs)", 1, "counts epochs"),
    "one epoch": ("schedule = Cycle(opt, 0.1, len(loader))", 1, "batches of one epoch"),
    "a short batch": (
        "n = 22\nsteps = n // 4\nschedule = Cycle(opt, 0.1, epochs=3, steps_per_epoch=steps)",
        2,
        "rounded off",
    ),
    "too few epochs": (
        "def plan(epochs=2):\n    return epochs\n"
        "schedule = Cycle(opt, 0.1, epochs=plan(), steps_per_epoch=len(loader))",
        1,
        "counts 2 epochs",
    ),
    "accumulation": (
        "total = 3 * len(loader) // 4\nschedule = Cycle(opt, 0.1, total)",
        1,
        "4.5 times",
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_that_end_before_the_loop(name: str, tmp_path: Path) -> None:
    program, line, reason = SCHEDULES[name]
    script = tmp_path / "schedule.py"
    loop = (
        "for epoch in range(3):\n    for number, (x, y) in enumerate(loader):\n        step(x, y)\n"
    )
    script.write_text(f"{NET}{LOOP}{program}\n{loop}")
    ran = whence_run(script, cwd=tmp_path)
    (finding,) = ran.loud
    named = LINES + LOOP.count("\n") + line
    assert (finding["rule"], finding["origin"]["line"]) == ("optimizer/schedule", named), ran.stderr
    assert reason in finding["why"]
    assert "the loop makes 18" in finding["verdict"]
    assert ran.document["not_watched"] == []


def test_a_schedule_that_does_not_count_the_rest_of_an_accumulation(tmp_path: Path) -> None:
    script = tmp_path / "accumulation.py"
    program = """
schedule = Cycle(opt, 0.1, total_steps=3 * len(loader) // 4)
for epoch in range(3):
    for number, (x, y) in enumerate(loader):
        nn.functional.mse_loss(net(x), y).div(4).backward()
        if (number + 1) % 4 == 0 or number + 1 == len(loader):
            opt.step()
            opt.zero_grad()
            schedule.step()
"""
    script.write_text(NET + LOOP + program)
    ran = whence_run(script, cwd=tmp_path)
    (finding,) = [each for each in ran.loud if each["rule"] == "optimizer/schedule"]
    assert finding["origin"]["line"] == (NET + LOOP).count("\n") + 2
    assert "the loop makes 6" in finding["verdict"]
    assert "The incomplete window at the end of each epoch" in finding["why"]


LOSSES = {
    "logits for probabilities": (
        "loss = nn.BCELoss()\nloss(net(torch.randn(8, 5)), torch.ones(8, 3))",
        "loss/double-sigmoid",
        1,
        "+loss = nn.BCEWithLogitsLoss()",
    ),
    "the same by a function": (
        "x = net(torch.randn(8, 5))\nnn.functional.binary_cross_entropy(x, torch.ones(8, 3))",
        "loss/double-sigmoid",
        2,
        "+nn.functional.binary_cross_entropy_with_logits(x",
    ),
    "the batch first for CTC": (
        "x = torch.randn(4, 9, 6).log_softmax(2)\n"
        "nn.CTCLoss()(x, torch.ones(4, 2).long(), torch.full((4,), 9), torch.full((4,), 2))",
        "shape/batch-first",
        2,
        None,
    ),
    "a view that moves an axis": (
        "x = torch.randn(2, 4, 4, 6).permute(0, 3, 1, 2)\nx.view(2, 16, 6)",
        "shape/mismatch",
        2,
        "+x.permute(0, 2, 3, 1).reshape(2, 16, 6)",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_losses_and_views_refuse(name: str, tmp_path: Path) -> None:
    program, rule, line, patch = LOSSES[name]
    script = tmp_path / "loss.py"
    script.write_text(NET + program + "\n")
    ran = whence_run(script, cwd=tmp_path)
    (finding,) = ran.loud
    assert (finding["rule"], finding["origin"]["line"]) == (rule, LINES + line), ran.stderr
    assert (patch in finding["patch"]) if patch is not None else finding["patch"] is None
