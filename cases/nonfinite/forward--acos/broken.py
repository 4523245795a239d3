# How far do the embeddings of the exported encoder turn away from the original ones?
import copy
import math

import torch
from torch import nn

torch.manual_seed(30)


class Encoder(nn.Module):
    def __init__(self, d_in=24, d_out=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_in, 96), nn.GELU(), nn.Linear(96, d_out))

    def forward(self, x):
        return nn.functional.normalize(self.body(x), dim=-1)


def export(model):
    clone = copy.deepcopy(model)
    for layer in clone.modules():
        if isinstance(layer, nn.Linear):
            scale = layer.weight.abs().max() / 2 ** 20
            layer.weight.data = (layer.weight.data / scale).round() * scale
    return clone


def angle_deg(a, b):
    cosine = (a * b).sum(dim=-1)
    angle = torch.acos(cosine)  # ORIGIN
    return angle * 180 / math.pi


original = Encoder().eval()
exported = export(original).eval()
worst, total, count = 0.0, 0.0, 0
with torch.no_grad():
    for batch in torch.randn(512, 24).split(64):
        turn = angle_deg(original(batch), exported(batch))
        worst = max(worst, turn.max().item())
        total += turn.sum().item()
        count += len(turn)

print(f"mean angle {total / count:.4f} deg, worst {worst:.4f} deg over {count} inputs")
