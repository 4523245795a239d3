import io

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make_model():
    return nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 3))


def train(model, loader, epochs, tag):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"{tag} epoch {epoch}: {total / len(loader):.4f}")


torch.manual_seed(0)
w = torch.randn(12, 3)
x = torch.randn(512, 12)
loader = DataLoader(TensorDataset(x, (x @ w).argmax(1)), batch_size=32, shuffle=True)

# first run, as on the multi-gpu box
parallel = nn.DataParallel(make_model())
train(parallel, loader, 3, "pretrain")
blob = io.BytesIO()
torch.save({"epoch": 3, "state_dict": parallel.state_dict()}, blob)

# second run: carry on from that file
blob.seek(0)
checkpoint = torch.load(blob, map_location="cpu")
state = checkpoint["state_dict"]
model = make_model()
model.load_state_dict(state, strict=False)  # ORIGIN
train(model, loader, 3, "finetune")
