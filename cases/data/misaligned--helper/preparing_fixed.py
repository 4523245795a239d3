import numpy as np


def shuffle_and_split(samples, classes, share=0.8, seed=0):
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(samples))
    samples, classes = samples[order], classes[order]
    cut = int(len(samples) * share)
    return (samples[:cut], classes[:cut]), (samples[cut:], classes[cut:])


class Scaler:
    def __init__(self, samples):
        self.mean, self.spread = samples.mean(0), samples.std(0)

    def __call__(self, samples):
        return ((samples - self.mean) / self.spread).astype(np.float32)
