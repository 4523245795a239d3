"""The same HMM with torch.logsumexp, which knows about -inf."""
import numpy as np
import torch

torch.manual_seed(2)
K, S, T = 4, 6, 12

transition_logits = torch.zeros(K, K, requires_grad=True)
emission_logits = torch.randn(K, S, requires_grad=True)
log_start = torch.log(torch.tensor([1.0, 0.0, 0.0, 0.0]))
allowed = torch.triu(torch.ones(K, K)).tril(1).bool()


def log_likelihood(obs):
    log_a = transition_logits.masked_fill(~allowed, -torch.inf).log_softmax(1)
    log_b = emission_logits.log_softmax(1)
    alpha = log_start + log_b[:, obs[:, 0]].T
    for t in range(1, T):
        alpha = torch.logsumexp(alpha[:, :, None] + log_a[None], 1) + log_b[:, obs[:, t]].T  # ORIGIN
    return torch.logsumexp(alpha, 1)


@torch.no_grad()
def viterbi(obs):
    log_a = transition_logits.masked_fill(~allowed, -torch.inf).log_softmax(1)
    log_b = emission_logits.log_softmax(1)
    delta, back = log_start + log_b[:, obs[0]], []
    for o in obs[1:]:
        best, arg = (delta[:, None] + log_a).max(0)
        back.append(arg)
        delta = best + log_b[:, o]
    path = [int(delta.argmax())]
    for arg in reversed(back):
        path.append(int(arg[path[-1]]))
    return path[::-1]


data = torch.from_numpy(np.random.default_rng(0).integers(0, S, size=(40, T)))
opt = torch.optim.Adam([transition_logits, emission_logits], lr=0.05)
for it in range(20):
    loss = -log_likelihood(data[torch.randperm(40)[:8]]).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), viterbi(data[0]))
