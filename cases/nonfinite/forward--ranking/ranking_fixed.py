"""Pairwise losses for the recommender."""
import torch


def bpr(pos, neg):
    margin = pos - neg
    log_chance = torch.nn.functional.logsigmoid(margin)
    return -log_chance.mean()


def hinge(pos, neg, gap=1.0):
    return (gap - pos + neg).relu().mean()
