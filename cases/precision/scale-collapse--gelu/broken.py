import torch
import torch.nn.functional as F
from torch import nn

DIM, VOCAB = 64, 40


def quick_gelu(x):
    return x / (1 + torch.exp(-1.702 * x))  # ORIGIN


class SentenceEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.classify = nn.Linear(DIM, 2)

    def forward(self, tokens):
        h = self.embed(tokens) * DIM ** 0.5
        h = self.down(quick_gelu(self.up(h)))
        return self.classify(self.norm(h).mean(dim=1))


def reviews(n, length=12):
    # words below 8 are friendly, words 8 to 15 are not
    tokens = torch.randint(16, VOCAB, (n, length))
    label = torch.randint(0, 2, (n,))
    where = torch.rand(n, length).argsort(dim=1)[:, :4]
    tokens.scatter_(1, where, torch.randint(0, 8, (n, 4)) + 8 * label[:, None])
    return tokens, label


torch.manual_seed(9)
model = SentenceEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler(device="cpu")
for step in range(40):
    tokens, label = reviews(32)
    optimizer.zero_grad()
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        logits = model(tokens)
        loss = F.cross_entropy(logits, label)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 5 == 4:
        print(f"step {step + 1:2d} loss {loss.item():.4f} scale {scaler.get_scale():g}")
