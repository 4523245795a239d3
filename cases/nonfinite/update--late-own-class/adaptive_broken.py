"""Our own second-moment method: not derived from torch's class, so that it can be read in one go."""
import torch


class Adaptive:
    def __init__(self, model, rate, keep=0.9, keep_square=0.99):
        self.weights = [each for each in model.parameters() if each.requires_grad]
        self.rate, self.keep, self.keep_square = rate, keep, keep_square
        self.memory = [(torch.zeros_like(each), torch.zeros_like(each)) for each in self.weights]

    def clear(self):
        for weight in self.weights:
            weight.grad = None

    def apply(self):
        with torch.no_grad():
            for weight, (mean, square) in zip(self.weights, self.memory):
                if weight.grad is None:
                    continue
                mean.lerp_(weight.grad, 1 - self.keep)
                square.lerp_(weight.grad.square(), 1 - self.keep_square)
                weight -= self.rate * mean / square.sqrt()  # ORIGIN
