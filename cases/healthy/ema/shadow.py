import copy

import torch


class Shadow:
    """Exponential moving average of a module; buffers (batch-norm statistics) are copied as they are."""

    def __init__(self, model, decay):
        self.decay = decay
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.seen = 0

    @torch.no_grad()
    def update(self, model):
        self.seen += 1
        d = min(self.decay, self.seen / (self.seen + 10))
        for mine, theirs in zip(self.module.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - d)
        for mine, theirs in zip(self.module.buffers(), model.buffers()):
            mine.copy_(theirs)
