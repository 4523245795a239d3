import numpy as np
import torch
from torch import nn

LENGTH = CLASSES = 6  # six joints, six states each
VOCAB = 30_000


def recordings(n, seed=0):
    """codes are stored as int16: the code book has 30000 entries, which fits"""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, CLASSES, (n, LENGTH))
    codes = (states * 4900 + rng.integers(0, 12, (n, LENGTH)) * 7).astype(np.int16)
    return codes, states.astype(np.uint8)


class StateTagger(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, sparse=True)
        self.conv = nn.Conv1d(dim, 32, 3, padding=1)
        self.out = nn.Conv1d(32, CLASSES, 1)

    def forward(self, codes):
        h = self.embed(codes).transpose(1, 2)
        return self.out(torch.relu(self.conv(h)))  # (batch, classes, length), as cross_entropy wants it


torch.manual_seed(1)
codes, states = recordings(640)
codes, states = torch.from_numpy(codes).long(), torch.from_numpy(states).long()
net = StateTagger()
dense = [p for name, p in net.named_parameters() if not name.startswith("embed")]
optimizers = [torch.optim.SparseAdam(net.embed.parameters(), lr=0.03), torch.optim.Adam(dense, lr=0.01)]
for epoch in range(3):
    right, total = 0, 0.0
    for idx in torch.randperm(len(codes)).split(32):
        logits = net(codes[idx])
        loss = nn.functional.cross_entropy(logits, states[idx])
        for opt in optimizers:
            opt.zero_grad()
        loss.backward()
        for opt in optimizers:
            opt.step()
        total += loss.item() * len(idx)
        right += (logits.argmax(1) == states[idx]).sum().item()
    print(f"epoch {epoch} loss {total / 640:.4f} accuracy {right / (640 * LENGTH):.3f}")
