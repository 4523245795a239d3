"""Bytes are divided by 255 on the way into the model; a mask of shares is weighted, and divided by a number of its own."""

import torch
from torch import nn

torch.manual_seed(12)
pictures = torch.randint(0, 256, (128, 3, 12, 12), dtype=torch.uint8)
masks = (pictures.float().mean(1, keepdim=True) > 127).float()


class Mask(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, padding=1)
        self.up = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x):
        x = x.float() / 255
        return self.up(torch.relu(self.down(x - 0.5)))


model = Mask()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(40):
    rows = torch.randint(0, len(pictures), (16,))
    logits = model(pictures[rows])
    weight = (pictures[rows].float() / 255).mean(1, keepdim=True) / 2
    loss = (nn.functional.binary_cross_entropy_with_logits(logits, masks[rows], reduction="none") * (0.5 + weight)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"{step}: {loss.item():.4f}")
