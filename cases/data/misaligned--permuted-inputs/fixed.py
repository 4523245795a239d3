import numpy as np
import torch
import torch.nn.functional as F

torch.manual_seed(8)
generator = np.random.RandomState(8)

# keystroke timings of five typists
typist = generator.randint(0, 5, size=500)
habits = generator.normal(size=(5, 9))
timings = torch.tensor(habits[typist] + 0.4 * generator.normal(size=(500, 9)), dtype=torch.float32)
typist = torch.tensor(typist)

w1 = (0.3 * torch.randn(9, 20)).requires_grad_()
w2 = (0.3 * torch.randn(20, 5)).requires_grad_()
optimizer = torch.optim.Adam([w1, w2], lr=0.01)


def forward(x):
    return torch.relu(x @ w1) @ w2


for epoch in range(5):
    perm = torch.randperm(500)
    correct = 0
    for begin in range(0, 500, 25):
        idx = perm[begin:begin + 25]
        x = timings[idx]
        y = typist[idx]
        logits = forward(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        correct += (logits.argmax(1) == y).sum().item()
    print(f"epoch {epoch}: {correct / 500:.3f}")
