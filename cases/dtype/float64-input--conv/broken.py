import torch
from torch.nn import functional as F

from data_broken import loaders
from net import StripeNet

SIZE = 16
torch.manual_seed(1)
train_loader, val_loader = loaders(SIZE, batch_size=16)
net = StripeNet(n_classes=2)
optim = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


def run_epoch(loader, training):
    net.train(training)
    hits, seen = 0, 0
    with torch.set_grad_enabled(training):
        for xb, yb in loader:
            logits = net(xb)
            loss = F.cross_entropy(logits, yb)
            if training:
                optim.zero_grad(set_to_none=True)
                loss.backward()
                optim.step()
            hits += (logits.argmax(1) == yb).sum().item()
            seen += len(yb)
    return hits / seen


for epoch in range(2):
    train_acc = run_epoch(train_loader, True)
    val_acc = run_epoch(val_loader, False)
    print(f"[{epoch}] train {train_acc:.2f} val {val_acc:.2f}")
