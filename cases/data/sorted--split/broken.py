import torch
import torch.nn.functional as F


class SpamFilter(torch.nn.Module):
    def __init__(self, words=40):
        super().__init__()
        self.score = torch.nn.Sequential(torch.nn.Linear(words, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def forward(self, counts):
        return self.score(counts).squeeze(1)


class Trainer:
    def __init__(self, model, mails, is_spam, batch_size=20):
        self.model = model
        self.mails, self.is_spam = mails, is_spam
        self.batch_size = batch_size
        self.optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def batches(self):
        return zip(self.mails.split(self.batch_size), self.is_spam.split(self.batch_size))

    def run_epoch(self):
        total = 0.0
        for mails, spam in self.batches():  # ORIGIN
            total += self.step(mails, spam)
        return total

    def step(self, mails, spam):
        loss = F.binary_cross_entropy_with_logits(self.model(mails), spam)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def mailbox(count, rate):
    words = torch.bernoulli(rate.expand(count, -1))
    return words / words.sum(1, keepdim=True).clamp(min=1).sqrt()


def main():
    torch.manual_seed(12)
    ham_rate, spam_rate = 0.1 + 0.3 * torch.rand(40), 0.1 + 0.3 * torch.rand(40)
    mails = torch.cat([mailbox(160, ham_rate), mailbox(120, spam_rate)])
    is_spam = torch.cat([torch.zeros(160), torch.ones(120)])
    trainer = Trainer(SpamFilter(), mails, is_spam)
    for epoch in range(5):
        total = trainer.run_epoch()
        with torch.no_grad():
            right = ((trainer.model(mails) > 0) == (is_spam > 0.5)).float().mean().item()
        print(f"{epoch}: {total:.3f} {right:.3f}")


main()
