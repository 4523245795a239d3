# Training a linear softmax classifier with a hand-derived gradient,
# the optimizer only does the momentum update.
import torch

torch.manual_seed(0)

n_in, n_out = 8, 3
layer = torch.nn.Linear(n_in, n_out)
opt = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.8)
true_w = torch.randn(n_in, n_out)


def sample(n):
    x = torch.randn(n, n_in)
    return x, (x @ true_w).argmax(1)


for step in range(25):
    x, y = sample(64)
    with torch.no_grad():
        probs = layer(x).softmax(1)
        onehot = torch.nn.functional.one_hot(y, n_out).float()
        delta = (probs - onehot) / len(x)
    try:
        layer.bias.grad = delta.sum(0)
        layer.weight.grad = delta.t() @ x
        opt.step()
    except RuntimeError as e:
        print(f"step {step}: no update ({e})")
    nll = -(probs * onehot).sum(1).log().mean()
    if step % 8 == 0:
        print(f"step {step}: nll {nll:.4f}")
