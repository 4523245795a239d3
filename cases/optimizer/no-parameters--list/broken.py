"""Two towers that learn to meet: questions on one side, answers on the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def tower(n_in):
    return nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, 12))


def pairs(n=48):
    topic = torch.randn(n, 5)
    return topic @ left + 0.1 * torch.randn(n, 14), topic @ right + 0.1 * torch.randn(n, 9)


torch.manual_seed(30)
left, right = torch.randn(5, 14) / 2, torch.randn(5, 9) / 2
questions, answers = tower(14), tower(9)
optimizer = torch.optim.Adam([questions.parameters(), answers.parameters()], lr=3e-3)  # ORIGIN
for step in range(60):
    q, a = pairs()
    similarity = F.normalize(questions(q), dim=1) @ F.normalize(answers(a), dim=1).T / 0.1
    loss = F.cross_entropy(similarity, torch.arange(len(q)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, round(loss.item(), 3))
