# intent detection for a voice assistant, one jsonl per intent
import json
import random
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

PHRASES = {
    "alarm": "wake me up at set an alarm for tomorrow morning early clock ring",
    "lights": "turn the lamp off on dim bedroom kitchen bright switch lights",
    "music": "play the song album artist next pause volume louder jazz",
    "weather": "will it rain today forecast umbrella sunny wind temperature outside",
}
INTENTS = sorted(PHRASES)
WORDS = sorted({w for p in PHRASES.values() for w in p.split()})
COLUMN = {w: i for i, w in enumerate(WORDS)}


def dump(folder):
    r = random.Random(2)
    for intent, phrase in PHRASES.items():
        with open(folder / f"{intent}.jsonl", "w") as f:
            for _ in range(60):
                f.write(json.dumps({"text": r.sample(phrase.split(), 4) + r.sample(WORDS, 2), "intent": intent}) + "\n")


def examples(folder, epoch):
    records = []
    for path in sorted(folder.glob("*.jsonl")):
        records += [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:  # ORIGIN
        bag = torch.zeros(len(WORDS))
        bag[[COLUMN[w] for w in record["text"]]] = 1.0
        yield bag, INTENTS.index(record["intent"])


def batched(stream, size):
    bags, labels = [], []
    for bag, label in stream:
        bags.append(bag)
        labels.append(label)
        if len(bags) == size:
            yield torch.stack(bags), torch.tensor(labels)
            bags, labels = [], []


torch.manual_seed(2)
net = nn.Sequential(nn.Linear(len(WORDS), 24), nn.Tanh(), nn.Linear(24, len(INTENTS)))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
with tempfile.TemporaryDirectory() as tmp:
    folder = Path(tmp)
    dump(folder)
    for epoch in range(4):
        hits, count = 0, 0
        for bags, labels in batched(examples(folder, epoch), 12):
            logits = net(bags)
            loss = F.cross_entropy(logits, labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (logits.argmax(1) == labels).sum().item()
            count += len(labels)
        print(f"epoch {epoch}: accuracy while training {hits / count:.3f}")
