"""A denoiser of short signals; what is trained is set up in one place, from one dict of settings."""

import torch
from torch import nn

torch.manual_seed(0)
SETTINGS = {"width": 32, "rate": 3e-3, "steps": 60}


def build(width):
    return nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 16))


def set_up(settings):
    model = build(settings["width"])
    optimizer = torch.optim.AdamW(build(settings["width"]).parameters(), lr=settings["rate"])  # ORIGIN
    return model, optimizer


model, optimizer = set_up(SETTINGS)
time = torch.linspace(0, 6, 16)
for step in range(SETTINGS["steps"]):
    clean = torch.sin(time * torch.rand(24, 1) * 2)
    noise = 0.3 * torch.randn_like(clean)
    loss = nn.functional.mse_loss(model(clean + noise), noise)
    model.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
