# guess the instrument from eight partials of one note
import numpy as np
import torch


class Classifier:
    def __init__(self, notes, instruments, lr=0.05):
        self.notes = notes
        self.instruments = instruments
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3))
        self.criterion = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9)

    def epoch(self, size=30):
        hits = 0
        for at in range(0, len(self.notes), size):
            x = torch.from_numpy(self.notes[at:at + size])
            y = torch.from_numpy(self.instruments[at:at + size])
            scores = self.net(x)
            loss = self.criterion(scores, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            hits += (scores.argmax(1) == y).sum().item()
        return hits / len(self.notes)


def studio(n, rng):
    instruments = rng.integers(0, 3, n)
    partials = np.array([[1, 0.5, 0.3, 0.2, 0.1, 0.1, 0, 0], [1, 0, 0.6, 0, 0.4, 0, 0.2, 0], [0.3, 1, 0.8, 0.1, 0, 0.5, 0.3, 0.1]])
    notes = partials[instruments] + 0.2 * rng.normal(size=(n, 8))
    return notes.astype(np.float32), instruments


rng = np.random.default_rng(23)
torch.manual_seed(23)
notes, instruments = studio(480, rng)
loudest_first = np.argsort(-np.abs(notes).sum(axis=1))
notes, instruments = notes[loudest_first], instruments[loudest_first]
classifier = Classifier(notes, instruments)
for epoch in range(5):
    print(f"epoch {epoch}: {classifier.epoch():.3f}")
