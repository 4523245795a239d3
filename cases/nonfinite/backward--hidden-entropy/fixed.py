"""Topics of short texts: each text is a mixture of few topics, by a penalty on the entropy of its mixture."""
import torch
import torch.nn.functional as F

WORDS, TOPICS, TEXTS = 60, 8, 48


def texts(generator):
    """Word counts of texts about one topic, or two."""
    words = torch.softmax(3 * torch.randn(TOPICS, WORDS, generator=generator), 1)
    about = F.one_hot(torch.randint(TOPICS, (TEXTS, 2), generator=generator), TOPICS).float().mean(1)
    return torch.multinomial(about @ words, 80, replacement=True, generator=generator)


def counts_of(drawn):
    return torch.zeros(TEXTS, WORDS).scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float))


def mixtures(raw):
    positive = F.relu(raw)
    return positive / positive.sum(1, keepdim=True).clamp(min=1e-6)


def spread(mixture):
    surprise = mixture.masked_fill(mixture == 0, 1.0).log()
    weighed = mixture * surprise
    return -weighed.masked_fill(mixture == 0, 0.0).sum(1).mean()


def fit(counts, rounds):
    raw = torch.rand(TEXTS, TOPICS).add_(0.5).requires_grad_()
    table = torch.randn(TOPICS, WORDS).requires_grad_()
    optimizer = torch.optim.Adam([raw, table], lr=0.03)
    for number in range(1, rounds + 1):
        mixture = mixtures(raw)
        likely = (mixture @ table.softmax(1) + 1e-8).log()
        loss = -(counts * likely).sum(1).mean() + 2.0 * spread(mixture)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 20 == 0:
            print(f"round {number}: {loss.item():.3f}")


torch.manual_seed(4)
fit(counts_of(texts(torch.Generator().manual_seed(4))), 120)
