# digits drawn with a 5x5 pen, fed the old way: data.next_batch(n)
import torch
from torch import nn

GLYPHS = {
    1: "..#...##....#....#...###.",
    4: "#..#.#..#.####....#....#.",
    7: "#####...#...#...#....#...",
}


class DigitData:
    def __init__(self, per_digit, generator):
        pictures, labels = [], []
        for label, glyph in enumerate(GLYPHS.values()):
            clean = torch.tensor([1.0 if c == "#" else 0.0 for c in glyph])
            pictures.append(clean + 0.4 * torch.randn(per_digit, 25, generator=generator))
            labels.append(torch.full((per_digit,), label))
        self.pictures = torch.cat(pictures)
        self.labels = torch.cat(labels)
        self.at = 0

    def __len__(self):
        return len(self.labels)

    def next_batch(self, size):
        pictures = self.pictures[self.at:self.at + size]
        labels = self.labels[self.at:self.at + size]  # ORIGIN
        self.at += size
        if self.at >= len(self):
            self.at = 0
        return pictures, labels


gen = torch.Generator().manual_seed(9)
torch.manual_seed(9)
data = DigitData(80, gen)
net = nn.Sequential(nn.Linear(25, 32), nn.ReLU(), nn.Linear(32, len(GLYPHS)))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(1, 73):
    pictures, labels = data.next_batch(10)
    logits = net(pictures)
    loss = nn.functional.cross_entropy(logits, labels)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step % 24 == 0:
        with torch.no_grad():
            right = (net(data.pictures).argmax(1) == data.labels).float().mean().item()
        print(f"step {step}: loss {loss.item():.4f} accuracy {right:.3f}")
