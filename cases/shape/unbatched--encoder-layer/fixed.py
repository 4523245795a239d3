import torch
from torch import nn


class PatchClassifier(nn.Module):
    """projects the 9 patches of an image, mixes them, averages and classifies"""

    def __init__(self, patch_dim=16, width=32, classes=4):
        super().__init__()
        self.proj = nn.Linear(patch_dim, width)
        self.mixer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, patches):
        tokens = self.proj(patches)
        mixed = self.mixer(tokens).mean(dim=1)
        return self.head(self.norm(mixed))


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.loss_fn = nn.CrossEntropyLoss()
        self.seen = 0

    def fit(self, stream):
        self.model.train()
        for patches, label in stream:
            self.opt.zero_grad()
            logits = self.model(patches)
            loss = self.loss_fn(logits, label)
            loss.backward()
            self.opt.step()
            self.seen += 1
            if self.seen % 15 == 0:
                acc = (logits.argmax(-1) == label).float().mean()
                print(f"{self.seen:4d} batches  loss={loss.item():.3f}  acc={acc.item():.2f}")


def stream(n_batches, batch=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    motifs = torch.randn(4, 16, generator=g)
    for _ in range(n_batches):
        label = torch.randint(0, 4, (batch,), generator=g)
        patches = 0.8 * torch.randn(batch, 9, 16, generator=g)
        where = torch.randint(0, 9, (batch,), generator=g)
        patches[torch.arange(batch), where] += 2 * motifs[label]
        yield patches, label


torch.manual_seed(2)
Trainer(PatchClassifier(), lr=2e-3).fit(stream(60))
