import torch
from torch import nn
from torch.nn import functional as F


def double(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(2, cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.GroupNorm(2, cout), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Two-level U-Net. Any height and width: the input is padded to a multiple of 4 and the output is cropped."""

    def __init__(self, cin=1, cout=1, base=8):
        super().__init__()
        self.down1, self.down2, self.bottom = double(cin, base), double(base, 2 * base), double(2 * base, 4 * base)
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2)
        self.dec2 = double(4 * base, 2 * base)
        self.up1 = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.dec1 = double(2 * base, base)
        self.head = nn.Conv2d(base, cout, 1)

    def forward(self, x):
        h, w = x.shape[-2:]
        x = F.pad(x, (0, -w % 4, 0, -h % 4), mode="replicate")
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], dim=1))
        a = self.dec1(torch.cat([self.up1(b), a], dim=1))
        return self.head(a)[..., :h, :w]
