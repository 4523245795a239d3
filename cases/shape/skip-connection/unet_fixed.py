import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
        nn.Conv2d(c_out, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
    )


class TinyUNet(nn.Module):
    def __init__(self, c_in=1, classes=2, base=8):
        super().__init__()
        self.enc1 = double_conv(c_in, base)
        self.enc2 = double_conv(base, base * 2)
        self.bottom = double_conv(base * 2, base * 4)
        self.dec2 = double_conv(base * 6, base * 2)
        self.dec1 = double_conv(base * 3, base)
        self.out = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        p1 = F.max_pool2d(e1, 2)
        e2 = self.enc2(p1)
        p2 = F.max_pool2d(e2, 2)
        b = self.bottom(p2)
        u2 = F.interpolate(b, size=e2.shape[-2:], mode="nearest")
        d2 = self.dec2(torch.cat([e2, u2], dim=1))
        u1 = F.interpolate(d2, scale_factor=2, mode="nearest")
        d1 = self.dec1(torch.cat([e1, u1], dim=1))
        return self.out(d1)
