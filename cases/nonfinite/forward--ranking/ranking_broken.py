"""Pairwise losses for the recommender."""
import torch


def bpr(pos, neg):
    margin = pos - neg
    chance = torch.sigmoid(margin)
    return -chance.log().mean()  # ORIGIN


def hinge(pos, neg, gap=1.0):
    return (gap - pos + neg).relu().mean()
