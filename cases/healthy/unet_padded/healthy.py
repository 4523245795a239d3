"""Segment discs in pictures of odd sizes; part of each mask is unlabelled and left out of the loss."""
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from unet import UNet

SIZES = [(13, 19), (16, 16), (15, 22), (17, 12)]


def scene(n, h, w):
    yy, xx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    cy, cx = torch.rand(n, 1, 1) * h, torch.rand(n, 1, 1) * w
    radius = 3 + 2 * torch.rand(n, 1, 1)
    mask = ((yy - cy).square() + (xx - cx).square() < radius.square()).to(torch.uint8)
    image = mask * 0.8 + 0.3 * torch.randn(n, h, w)
    known = torch.ones(n, h, w, dtype=torch.bool)
    known[:, :, : w // 6] = False
    return image.unsqueeze(1), mask.unsqueeze(1), known.unsqueeze(1)


def dice(prob, mask):
    both = (prob * mask).sum(dim=(1, 2, 3))
    return 1 - (2 * both + 1) / (prob.sum(dim=(1, 2, 3)) + mask.sum(dim=(1, 2, 3)) + 1)


def main():
    torch.manual_seed(50)
    net = UNet()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for step in range(24):
        h, w = SIZES[step % len(SIZES)]
        image, mask, known = scene(4, h, w)
        logits = net(image)
        truth = mask.float()
        loss = bce(logits[known], truth[known]) + dice(logits.sigmoid() * known, truth * known).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 6 == 0 or step == 23:
            print(f"step {step:2d} {h}x{w} loss {loss.item():.3f}")

    net.eval()
    with torch.no_grad():
        image, mask, _ = scene(1, 21, 11)
        hit = ((net(image) > 0) == mask.bool()).float().mean()
    print(f"pixel accuracy on 21x11: {hit.item():.2f}")


if __name__ == "__main__":
    main()
