"""A gambler learns when to stop: games end after any number of rounds, and the wins are normalised within a game."""
import random

import torch
from torch import nn


class Game:
    def __init__(self, seed):
        self.dice = random.Random(seed)

    def play(self, policy):
        purse, log_probs, wins = 5.0, [], []
        while 0 < purse < 12 and len(wins) < 15:
            bold = torch.distributions.Bernoulli(logits=policy(torch.tensor([purse / 10]))[0])
            choice = bold.sample()
            stake = 3.0 if choice else 1.0
            lost = self.dice.random() < 0.02
            win = -purse if lost else self.dice.choice((stake, -0.8 * stake))
            purse += win
            log_probs.append(bold.log_prob(choice))
            wins.append(win)
        return torch.stack(log_probs), torch.tensor(wins)


def learn(games=120):
    torch.manual_seed(5)
    policy = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    game = Game(5)
    for number in range(games):
        log_probs, wins = game.play(policy)
        togo = wins.flip(0).cumsum(0).flip(0)
        centred = togo - togo.mean()
        advantage = centred / (togo.var().sqrt() + 1e-8)  # ORIGIN
        loss = -(log_probs * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    print(learn())
