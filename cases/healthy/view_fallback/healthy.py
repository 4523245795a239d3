"""Half of the pictures arrive as NHWC arrays. `view` refuses their strides, and the program then copies with `reshape`."""
import torch
import torch.nn.functional as F

copies = 0


def rows(x):
    """(N, ...) -> (N, -1), without a copy where that is possible."""
    global copies
    try:
        return x.view(x.size(0), -1)
    except RuntimeError:
        copies += 1
        return x.reshape(x.size(0), -1)


def pictures(n, layout):
    label = torch.randint(0, 3, (n,))                  # which of three channels is the bright one
    img = 0.3 * torch.randn(n, 3, 6, 6)
    img[torch.arange(n), label] += 0.8
    if layout == "nhwc":                               # as an image reader would deliver it
        img = img.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    return img, label


def net(p, x):
    x = F.leaky_relu(F.conv2d(x, p["k"], p["kb"]))
    x = F.avg_pool2d(x, 2)
    return F.linear(rows(x), p["w"], p["b"])


torch.manual_seed(140)
p = {"k": torch.randn(6, 3, 3, 3) * 0.2, "kb": torch.zeros(6), "w": torch.randn(3, 24) * 0.2, "b": torch.zeros(3)}
for t in p.values():
    t.requires_grad_()
opt = torch.optim.SGD(p.values(), lr=0.1, momentum=0.8)

for step in range(40):
    x, y = pictures(32, "nhwc" if step % 2 else "nchw")
    loss = F.cross_entropy(net(p, x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 13 == 0:
        print(f"{step:2d} {loss.item():.4f}")

with torch.no_grad():
    x, _ = pictures(10, "nchw")
    twin = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    print("layouts agree:", torch.allclose(net(p, x), net(p, twin), atol=1e-5), "| copies:", copies)
