"""Which of four plans will a customer choose? Answers come as numbers from a form."""
import torch
import torch.nn.functional as F


def answers(n):
    g = torch.Generator().manual_seed(12)
    age, income, calls = torch.randn(3, n, generator=g)
    score = torch.stack([age, income, -age - income, calls], dim=1)
    return torch.stack([age, income, calls], dim=1), score.argmax(1)


def split(x, y, share=0.8):
    cut = int(len(x) * share)
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


features, plan = answers(500)
plan = plan.float()  # ORIGIN
(train_x, train_y), (test_x, test_y) = split(features, plan)

torch.manual_seed(12)
weights = [torch.nn.Parameter(0.3 * torch.randn(3, 16)), torch.nn.Parameter(0.3 * torch.randn(16, 4))]
adam = torch.optim.Adam(weights, lr=0.02)
for epoch in range(6):
    for batch in torch.randperm(len(train_x)).split(50):
        logits = torch.relu(train_x[batch] @ weights[0]) @ weights[1]
        loss = F.cross_entropy(logits, train_y[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        right = (torch.relu(test_x @ weights[0]) @ weights[1]).argmax(1) == test_y
    print(epoch, round(right.float().mean().item(), 3))
