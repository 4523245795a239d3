# depth from a single brightness frame; frames and depth maps are stored one file each
import glob
import os
import re
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def number(path):
    return int(re.search(r"(\d+)\.npy$", path).group(1))


class FramesAndDepth(Dataset):
    def __init__(self, root):
        self.frames = sorted(glob.glob(os.path.join(root, "frame", "*.npy")), key=number)
        self.depths = sorted(glob.glob(os.path.join(root, "depth", "*.npy")), key=number)
        assert len(self.frames) == len(self.depths)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        frame = torch.from_numpy(np.load(self.frames[i]))
        depth = torch.from_numpy(np.load(self.depths[i]))
        return frame[None], depth[None]


def record(root, count=128):
    rng = np.random.default_rng(20)
    for kind in ("frame", "depth"):
        os.makedirs(os.path.join(root, kind))
    for k in range(count):
        coarse = rng.normal(size=(4, 4)).astype(np.float32)
        depth = np.kron(coarse, np.ones((3, 3), dtype=np.float32))
        frame = -0.7 * depth + 0.1 * rng.normal(size=depth.shape).astype(np.float32)
        np.save(os.path.join(root, "frame", f"{k}.npy"), frame)
        np.save(os.path.join(root, "depth", f"{k}.npy"), depth)


def main():
    torch.manual_seed(20)
    with tempfile.TemporaryDirectory() as root:
        record(root)
        loader = DataLoader(FramesAndDepth(root), batch_size=16, shuffle=True)
        net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(12, 1, 3, padding=1))
        opt = torch.optim.Adam(net.parameters(), lr=5e-3)
        for epoch in range(6):
            epoch_loss = 0.0
            for frame, depth in loader:
                loss = nn.functional.l1_loss(net(frame), depth)
                opt.zero_grad()
                loss.backward()
                opt.step()
                epoch_loss += loss.item() / len(loader)
            print(f"epoch {epoch} mean abs error {epoch_loss:.3f}")


main()
