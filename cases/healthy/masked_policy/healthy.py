"""REINFORCE on tic-tac-toe against a random opponent; taken squares get log-probability -inf."""
import random

import torch
from torch import nn

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
NEVER = float("-inf")


def winner(board):
    for a, b, c in LINES:
        if board[a] != 0 and board[a] == board[b] == board[c]:
            return board[a]
    return 0


def log_policy(net, board):
    state = torch.tensor(board, dtype=torch.float)
    logits = net(state).masked_fill(state != 0, NEVER)
    return torch.log_softmax(logits, dim=-1)


def entropy(logp):
    p = logp.exp()
    return -(p * logp.masked_fill(p == 0, 0.0)).sum()


def play(net, rng):
    board, logps, entropies = [0] * 9, [], []
    while True:
        logp = log_policy(net, board)
        move = int(torch.multinomial(logp.exp(), 1))
        logps.append(logp[move])
        entropies.append(entropy(logp))
        board[move] = 1
        if winner(board) or 0 not in board:
            break
        board[rng.choice([i for i, v in enumerate(board) if v == 0])] = -1
        if winner(board) or 0 not in board:
            break
    return torch.stack(logps), torch.stack(entropies).mean(), float(winner(board))


torch.manual_seed(13)
rng = random.Random(13)
net = nn.Sequential(nn.Linear(9, 48), nn.ReLU(), nn.Linear(48, 9))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
baseline = 0.0
for it in range(25):
    opt.zero_grad()
    rewards = []
    for _ in range(8):
        logps, spread, reward = play(net, rng)
        loss = -(reward - baseline) * logps.sum() - 0.01 * spread
        (loss / 8).backward()
        rewards.append(reward)
    opt.step()
    baseline = 0.9 * baseline + 0.1 * sum(rewards) / len(rewards)
    if it % 6 == 0:
        print(f"round {it:2d} mean reward {sum(rewards) / len(rewards):+.2f} baseline {baseline:+.2f}")
