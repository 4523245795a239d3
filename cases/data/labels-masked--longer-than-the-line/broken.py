"""A tagger of recipes: what comes before the quantity is given, the rest is to be told letter by letter."""
import torch
from torch import nn

SKIP = -100
WORDS = ["stir", "in", "200", "300", "g", "ml", "of", "milk", "flour", "sugar"]
PLACE = {word: number for number, word in enumerate(WORDS)}


def line(number):
    return f"stir in {('200', '300')[number % 2]} {('g', 'ml')[number % 3 % 2]} of {WORDS[7 + number % 3]}"


def example(text, given="stir in"):
    words = [PLACE[word] for word in text.split()]
    wanted = words.copy()
    known = len(given)  # ORIGIN
    wanted[:known] = [SKIP] * known
    return torch.tensor(words), torch.tensor(wanted[: len(words)])


class Teller(nn.Module):
    def __init__(self, size=24):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), size)
        self.memory = nn.LSTM(size, size, batch_first=True)
        self.next = nn.Linear(size, len(WORDS))

    def forward(self, words):
        return self.next(self.memory(self.words(words))[0])


torch.manual_seed(0)
examples = [example(line(number)) for number in range(64)]
teller = Teller()
optimizer = torch.optim.Adam(teller.parameters(), lr=1e-2)
for turn in range(4):
    for begin in range(0, len(examples), 16):
        words, wanted = map(torch.stack, zip(*examples[begin : begin + 16]))
        told = teller(words)[:, :-1]
        loss = nn.functional.cross_entropy(told.flatten(0, 1), wanted[:, 1:].flatten(), ignore_index=SKIP, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(turn, round(loss.item(), 3))
