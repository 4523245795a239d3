import torch


class PixelAccuracy:
    """Accuracy over everything seen since the last reset()."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.states = []

    def update(self, logits, target):
        self.states.append((logits.detach().softmax(dim=1), target))  # ORIGIN

    def compute(self):
        hits = sum((p.argmax(1) == t).sum().item() for p, t in self.states)
        return hits / sum(t.numel() for _, t in self.states)
