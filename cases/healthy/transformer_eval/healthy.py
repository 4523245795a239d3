"""Train a small nn.TransformerEncoder, then evaluate it with a padding mask under no_grad (the fused inference path)."""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, vocab=30, dim=32, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, heads, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=layers)
        self.out = nn.Linear(dim, 2)

    def encode(self, ids):
        return self.encoder(self.embed(ids), src_key_padding_mask=ids == 0)

    def forward(self, ids):
        real = (ids != 0).unsqueeze(-1)
        return self.out((self.encode(ids) * real).sum(1) / real.sum(1))


def sentences(n, longest=12):
    ids = torch.randint(1, 30, (n, longest))
    lengths = torch.randint(2, longest + 1, (n, 1))
    ids = ids * (torch.arange(longest) < lengths)
    return ids, ((ids > 20).sum(1) * 3 > lengths.squeeze(1)).long()   # more than a third of the words are "rare"


torch.manual_seed(160)
model = Classifier()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    ids, y = sentences(32)
    loss = nn.functional.cross_entropy(model(ids), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 13 == 0:
        print(f"step {step:2d} loss {loss.item():.4f}")

model.eval()
ids, y = sentences(64)
with torch.no_grad():
    states = model.encode(ids)
    logits = model(ids)
real = ids != 0
print("accuracy", (logits.argmax(1) == y).float().mean().item())
print("states  ", tuple(states.shape), repr(states[real].double().sum().item()))
print("padding ", repr(states[~real].abs().sum().item()))
print("logits  ", repr(logits.double().sum().item()))
