import numpy as np


def standardise(rows):
    rows = np.asarray(rows, dtype=np.float32)
    centred = rows - rows.mean(axis=1, keepdims=True)
    scale = np.maximum(rows.std(axis=1, keepdims=True), 1e-6)
    return centred / scale
