import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(17)
N_JOINTS = 5


class PoseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, stride=2)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2)
        self.out = nn.Linear(16 * 9, N_JOINTS * 2)

    def forward(self, img):
        x = F.relu(self.c1(img), inplace=True)
        x = F.relu(self.c2(x), inplace=True)
        return self.out(x.flatten(1)).view(-1, N_JOINTS, 2)


def render(n):
    """Images with one blob per joint. Joints outside the frame are absent: visible 0, coordinates 0."""
    xy = torch.rand(n, N_JOINTS, 2) * 2.4 - 1.2
    visible = (xy.abs() <= 1.1).all(-1).float()
    axis = torch.linspace(-1, 1, 16)
    gx = torch.exp(-20 * (axis - xy[..., :1]) ** 2)
    gy = torch.exp(-20 * (axis - xy[..., 1:]) ** 2)
    weight = torch.arange(1, N_JOINTS + 1) / N_JOINTS
    img = torch.einsum("j,njy,njx,nj->nyx", weight, gy, gx, visible)
    return img.unsqueeze(1), xy * visible.unsqueeze(-1), visible


def mean_joint_error(pred, xy, visible):
    offset = pred - xy
    offset *= visible.unsqueeze(-1)
    err = torch.sqrt(offset.square().sum(-1) + 1e-9)
    return (err * visible).sum() / visible.sum()


net = PoseNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(121):
    img, xy, visible = render(64)
    loss = mean_joint_error(net(img), xy, visible)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print("step", step, "mean joint error", round(loss.item(), 4))
