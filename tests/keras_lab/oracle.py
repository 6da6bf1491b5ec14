"""The paper in float64 NumPy, written from its text and from nothing else.

Networks are lists of layers. Each layer gives its forward value and, from the
gradient of its output, the gradients of its input and of its parameters.
"""

import numpy as np


def sign(x):
    return np.where(x >= 0, 1.0, -1.0)


class Dense:
    def forward(self, x, w):
        self.x, self.w = x, w
        return x @ w

    def backward(self, g):
        return g @ self.w.T, self.x.T @ g


class Conv2D:
    """3x3 and the like, stride 1, "same" padding, channels last."""

    def forward(self, x, w):
        height, width = w.shape[:2]
        top, left = (height - 1) // 2, (width - 1) // 2
        pad = (
            (0, 0),
            (top, height - 1 - top),
            (left, width - 1 - left),
            (0, 0),
        )
        self.shape, self.origin, self.w = x.shape, (top, left), w
        self.padded = np.pad(x, pad)
        rows, columns = x.shape[1:3]
        out = np.zeros((*x.shape[:3], w.shape[3]))
        for i in range(height):
            for j in range(width):
                window = self.padded[:, i : i + rows, j : j + columns]
                out += window @ w[i, j]
        return out

    def backward(self, g):
        rows, columns = self.shape[1:3]
        gradient = np.zeros_like(self.w)
        padded = np.zeros_like(self.padded)
        for i in range(self.w.shape[0]):
            for j in range(self.w.shape[1]):
                window = self.padded[:, i : i + rows, j : j + columns]
                gradient[i, j] = np.einsum("bhwi,bhwo->io", window, g)
                padded[:, i : i + rows, j : j + columns] += g @ self.w[i, j].T
        top, left = self.origin
        return padded[:, top : top + rows, left : left + columns], gradient


class ReLU:
    def forward(self, x):
        self.x = x
        return np.maximum(x, 0)

    def backward(self, g):
        return g * (self.x > 0)


class Flatten:
    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, g):
        return g.reshape(self.shape)


def squared_hinge(y, o):
    """Mean over batch and outputs, and its gradient."""
    margin = np.maximum(1 - y * o, 0)
    return np.mean(margin**2), -2 * y * margin / margin.size


class Algorithm1:
    """Lines 1-25, for weights without a bias."""

    def __init__(self, layers, weights, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
        self.layers = layers
        self.w = [np.asarray(w, np.float64) for w in weights]
        self.m = [np.zeros_like(w) for w in self.w]
        self.v = [np.zeros_like(w) for w in self.w]
        self.d = [np.ones_like(w) for w in self.w]
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.t = 0

    def alphas(self):
        return [
            np.sum(d * np.abs(w)) / np.sum(d) for w, d in zip(self.w, self.d)
        ]

    def step(self, x, y, learning_rate, clip=1.0):
        self.t += 1
        weights = iter(a * sign(w) for a, w in zip(self.alphas(), self.w))
        for layer in self.layers:
            if isinstance(layer, (Dense, Conv2D)):
                x = layer.forward(x, next(weights))
            else:
                x = layer.forward(x)
        loss, g = squared_hinge(y, x)
        gradients = []
        for layer in reversed(self.layers):
            if isinstance(layer, (Dense, Conv2D)):
                g, gradient = layer.backward(g)
                gradients.insert(0, gradient)
            else:
                g = layer.backward(g)
        for i, gradient in enumerate(gradients):
            self.m[i] = self.beta_1 * self.m[i] + (1 - self.beta_1) * gradient
            self.v[i] = (
                self.beta_2 * self.v[i] + (1 - self.beta_2) * gradient**2
            )
            m_hat = self.m[i] / (1 - self.beta_1**self.t)
            v_hat = self.v[i] / (1 - self.beta_2**self.t)
            self.d[i] = (self.epsilon + np.sqrt(v_hat)) / learning_rate
            self.w[i] = self.w[i] - m_hat / self.d[i]
            if clip is not None:
                self.w[i] = np.clip(self.w[i], -clip, clip)
        return loss
