# %% [markdown]
# Autoencoder for sensor windows, exported from the notebook

# %%
import traceback

import torch
from torch import nn

torch.manual_seed(42)
windows = torch.sin(torch.linspace(0, 30, 20) + torch.rand(320, 1) * 6.28)

# %%
autoencoder = nn.Sequential(
    nn.Linear(20, 64),
    nn.ReLU(),
    nn.Linear(64, 8),
    nn.ReLU(),
    nn.Linear(8, 64),
    nn.ReLU(),
    nn.Linear(64, 20),
)
opt = torch.optim.AdamW(autoencoder.parameters(), lr=2e-3)
history = []

# %%
def fit(n_epochs):
    for _ in range(n_epochs):
        for chunk in windows[torch.randperm(len(windows))].split(40):
            opt.zero_grad()
            err = ((autoencoder(chunk) - chunk) ** 2).mean()
            err.backward()
            opt.step()
            history.append(float(err.detach()))


try:
    fit(4)
except Exception:
    traceback.print_exc()  # keep the kernel alive, look at history below

# %%
print("steps done:", len(history))
print("last error:", history[-1] if history else None)
