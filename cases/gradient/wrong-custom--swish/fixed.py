# memory-efficient swish, as in the EfficientNet ports
import torch
import torch.nn as nn
import torch.nn.functional as F


class SwishImplementation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        result = i * torch.sigmoid(i)
        ctx.save_for_backward(i)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        i = ctx.saved_tensors[0]
        s = torch.sigmoid(i)
        return grad_output * (s * (1 + i * (1 - s)))


class MemoryEfficientSwish(nn.Module):
    def forward(self, x):
        return SwishImplementation.apply(x)


class ConvNet(nn.Module):
    def __init__(self, width=12, n_classes=3):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.block = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.act = MemoryEfficientSwish()
        self.fc = nn.Linear(width, n_classes)

    def forward(self, x):
        x = self.act(self.stem(x))
        x = self.act(self.block(x))
        return self.fc(x.mean(dim=(2, 3)))


def make_batch(n, gen):
    """horizontal bars, vertical bars or blobs on a noisy background"""
    labels = torch.randint(0, 3, (n,), generator=gen)
    imgs = 0.3 * torch.randn(n, 1, 12, 12, generator=gen)
    pos = torch.randint(2, 9, (n,), generator=gen)
    for k in range(n):
        p = int(pos[k])
        if labels[k] == 0:
            imgs[k, 0, p] += 1.5
        elif labels[k] == 1:
            imgs[k, 0, :, p] += 1.5
        else:
            imgs[k, 0, p:p + 3, p:p + 3] += 1.5
    return imgs, labels


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(11)
    model = ConvNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model.train()
    for step in range(60):
        images, labels = make_batch(32, gen)
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            acc = (logits.argmax(1) == labels).float().mean().item()
            print(f"step {step + 1:3d}  loss {loss.item():.4f}  acc {acc:.2f}")


if __name__ == "__main__":
    main()
