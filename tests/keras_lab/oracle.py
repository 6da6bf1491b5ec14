"""The paper in float64 NumPy, written from its text and from nothing else.

Networks are lists of layers. Each layer gives its forward value and, from the
gradient of its output, the gradients of its input and of its parameters.
"""

import numpy as np


def sign(x):
    return np.where(x >= 0, 1.0, -1.0)


class Dense:
    weights = 1

    def forward(self, x, w):
        self.x, self.w = x, w
        return x @ w

    def backward(self, g):
        return g @ self.w.T, self.x.T @ g


def windows(x, height, width):
    """The window of each output, with "same" padding for odd sizes."""
    rows, columns = height // 2, width // 2
    padded = np.pad(x, ((0, 0), (rows, rows), (columns, columns), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(
        padded, (height, width), axis=(1, 2)
    )


class Conv2D:
    """A kernel with odd sizes, stride 1, "same" padding, channels last."""

    weights = 1

    def forward(self, x, w):
        self.windows, self.w = windows(x, *w.shape[:2]), w
        return np.einsum("bhwcij,ijco->bhwo", self.windows, w)

    def backward(self, g):
        flipped = self.w[::-1, ::-1]
        g_windows = windows(g, *flipped.shape[:2])
        g_x = np.einsum("bhwoij,ijco->bhwc", g_windows, flipped)
        return g_x, np.einsum("bhwcij,bhwo->ijco", self.windows, g)


class ReLU:
    weights = 0

    def forward(self, x):
        self.x = x
        return np.maximum(x, 0)

    def backward(self, g):
        return g * (self.x > 0)


class Flatten:
    weights = 0

    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, g):
        return g.reshape(self.shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class LSTM:
    """Section 4.3 without peepholes: from a zero state, the last h is given.

    W and U stack the gates i, f, candidate, o; b is their bias.
    """

    weights = 2
    gates = 4

    def __init__(self, bias=0.0):
        self.bias = np.asarray(bias, np.float64)

    def forward(self, x, w, u):
        self.x, self.w, self.u = x, w, u
        h = c = np.zeros((len(x), len(u)))
        self.steps = []
        for t in range(x.shape[1]):
            z = x[:, t] @ w + h @ u + self.bias
            z_i, z_f, z_c, z_o = np.split(z, 4, axis=1)
            i, f, o = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o)
            candidate = np.tanh(z_c)
            previous, c = (h, c), f * c + i * candidate
            h = o * np.tanh(c)
            self.steps.append((*previous, i, f, candidate, o, c))
        return h

    def backward(self, g_h):
        g_w, g_u = np.zeros_like(self.w), np.zeros_like(self.u)
        g_x = np.zeros_like(self.x)
        g_c = np.zeros_like(g_h)
        for t in reversed(range(len(self.steps))):
            h, c_before, i, f, candidate, o, c = self.steps[t]
            g_c = g_c + g_h * o * (1 - np.tanh(c) ** 2)
            g_z = np.concatenate(
                [
                    g_c * candidate * i * (1 - i),
                    g_c * c_before * f * (1 - f),
                    g_c * i * (1 - candidate**2),
                    g_h * np.tanh(c) * o * (1 - o),
                ],
                axis=1,
            )
            g_w += self.x[:, t].T @ g_z
            g_u += h.T @ g_z
            g_x[:, t] = g_z @ self.w.T
            g_h, g_c = g_z @ self.u.T, g_c * f
        return g_x, g_w, g_u


def squared_hinge(y, o):
    """Mean over batch and outputs, and its gradient."""
    margin = np.maximum(1 - y * o, 0)
    return np.mean(margin**2), -2 * y * margin / margin.size


class Algorithm1:
    """Lines 1-25. Biases, where a layer has them, stay as they are.

    A weight is a list of parts with an α each: the gates of an LSTM, or the
    whole of it.
    """

    def __init__(self, layers, weights, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
        self.layers = layers
        self.w = [np.asarray(w, np.float64) for w in weights]
        self.m = [np.zeros_like(w) for w in self.w]
        self.v = [np.zeros_like(w) for w in self.w]
        self.d = [np.ones_like(w) for w in self.w]
        self.gates = [
            getattr(layer, "gates", 1)
            for layer in layers
            for _ in range(layer.weights)
        ]
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.t = 0

    def alphas(self):
        """Line 3, for each weight: one α, or one per gate."""
        alphas = []
        for w, d, gates in zip(self.w, self.d, self.gates):
            parts = zip(*(np.split(x, gates, axis=-1) for x in (w, d)))
            alpha = [np.sum(d * np.abs(w)) / np.sum(d) for w, d in parts]
            alphas.append(np.array(alpha) if gates > 1 else alpha[0])
        return alphas

    def binary_weights(self):
        """Line 4."""
        return [
            np.repeat(alpha, w.shape[-1] // np.size(alpha)) * sign(w)
            for alpha, w in zip(self.alphas(), self.w)
        ]

    def step(self, x, y, learning_rate, clip=1.0):
        self.t += 1
        weights = iter(self.binary_weights())
        for layer in self.layers:
            x = layer.forward(x, *(next(weights) for _ in range(layer.weights)))
        loss, g = squared_hinge(y, x)
        gradients = []
        for layer in reversed(self.layers):
            if layer.weights:
                g, *of_weights = layer.backward(g)
                gradients = of_weights + gradients
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
