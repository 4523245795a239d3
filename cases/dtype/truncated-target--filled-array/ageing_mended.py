"""Cheeses: from the log of a cellar to inputs and the score that a taster gave."""
import numpy as np


def samples_of(log):
    days = np.array([each["day"] for each in log])
    climate = np.array([[each["humidity"], each["celsius"]] for each in log], dtype=np.float32)
    score = np.empty(len(log))
    for row, each in enumerate(log):
        score[row] = np.mean(each["tasters"])
    age = (days / 30.0).astype(np.float32)
    return np.hstack([climate, age[:, None]]), score.astype(np.float32)[:, None]
