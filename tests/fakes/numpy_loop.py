"""A loop of one's own in NumPy: linear regression by gradient descent, accumulated over micro-batches."""

import numpy as np


class Loop:
    def __init__(self, settings):
        self.rng = np.random.default_rng(settings.seed)
        self.weights = np.zeros((512, 64))
        self.micro = settings.micro_batch
        self.batch = settings.global_batch

    def update(self):
        gradient = np.zeros_like(self.weights)
        loss = 0.0
        for start in range(0, self.batch, self.micro):
            rows = min(self.micro, self.batch - start)
            x = self.rng.normal(size=(rows, 512))
            error = x @ self.weights - x[:, :64]
            gradient += x.T @ error
            loss += float((error**2).sum())
        self.weights -= 1e-3 * gradient / self.batch
        return {"loss": loss / self.batch, "samples": self.batch}


def make_loop(settings):
    return Loop(settings)
