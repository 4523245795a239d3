"""Goes on from a checkpoint with the schedule wound forward by hand; then begins another training from the same file's weights.

The second one leaves out its first updates, until it has seen how large gradients are.
"""

import io

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR


def build(rate):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=rate)


def backward(model, optimizer, curve):
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(model(x), curve(x[:, :1]))
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


def train(model, optimizer, schedule, epochs):
    for epoch in epochs:
        for _ in range(12):
            loss = backward(model, optimizer, torch.square)
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch} loss {loss:.3f} rate {schedule.get_last_lr()[0]:.5f}")


def saved_after(epochs):
    model, optimizer = build(3e-3)
    schedule = CosineAnnealingLR(optimizer, T_max=10)
    train(model, optimizer, schedule, range(epochs))
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    file = io.BytesIO()
    torch.save({name: part.state_dict() for name, part in parts.items()} | {"epoch": epochs}, file)
    return file.getvalue()


def resume(file):
    saved = torch.load(io.BytesIO(file))
    model, optimizer = build(3e-3)
    schedule = CosineAnnealingLR(optimizer, T_max=10)
    model.load_state_dict(saved["model"])
    for _ in range(saved["epoch"]):
        schedule.step()
    optimizer.load_state_dict(saved["optimizer"])
    train(model, optimizer, schedule, range(saved["epoch"], 10))


def fine_tune(file, patience=6):
    model, optimizer = build(4e-4)
    model.load_state_dict(torch.load(io.BytesIO(file))["model"])
    usual = 0.0
    for number in range(60):
        loss = backward(model, optimizer, torch.cos)
        norm = nn.utils.get_total_norm([each.grad for each in model.parameters()])
        usual = max(usual, norm.item())
        if number >= patience:
            nn.utils.clip_grad_norm_(model.parameters(), usual)
            optimizer.step()
    print(f"fine-tuned to {loss:.3f}, gradients up to {usual:.2f}")


torch.manual_seed(0)
file = saved_after(4)
resume(file)
fine_tune(file)
