import logging

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("sentiment")


class SentimentLSTM(nn.Module):
    def __init__(self, vocab_size, batch_size, emb=12, hidden=20):
        super().__init__()
        self.batch_size, self.hidden_dim = batch_size, hidden
        self.embedding = nn.Embedding(vocab_size, emb)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 2)
        self.hidden = None

    def init_hidden(self, tokens):
        state = torch.zeros(2, 1, self.batch_size, self.hidden_dim, device=tokens.device)  # ORIGIN
        self.hidden = (state[0], state[1])

    def forward(self, tokens):
        out, self.hidden = self.lstm(self.embedding(tokens), self.hidden)
        return self.fc(out[:, -1])


class Trainer:
    def __init__(self, model, data, lr=0.01):
        self.model, self.data = model, data
        self.criterion = nn.CrossEntropyLoss()
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.losses = []

    def step(self, tokens, mood):
        self.opt.zero_grad()
        self.model.init_hidden(tokens)
        loss = self.criterion(self.model(tokens), mood)
        loss.backward()
        self.opt.step()
        self.losses.append(loss.item())

    def run(self, epochs):
        for epoch in range(epochs):
            for start in range(0, len(self.data[0]), self.model.batch_size):
                part = slice(start, start + self.model.batch_size)
                try:
                    self.step(self.data[0][part], self.data[1][part])
                except Exception as err:
                    log.error("step at %d failed: %s", start, err)
            log.info("epoch %d mean loss %.4f", epoch, sum(self.losses) / len(self.losses))


if __name__ == "__main__":
    torch.manual_seed(2)
    reviews = torch.randint(1, 200, (90, 15))
    moods = (reviews[:, :5].sum(1) > 500).long()
    Trainer(SentimentLSTM(200, batch_size=25), (reviews, moods)).run(epochs=3)
