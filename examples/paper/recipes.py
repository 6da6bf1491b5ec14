"""The paper's experiments as data: network, rates, schedule, epochs, batch.

From Section 4 of the paper. Epochs count from 1. The paper does not give the
learning rate of its full-precision networks: they use that of the networks with
binary weights here.
"""

import dataclasses
from collections.abc import Callable, Mapping

import keras
import numpy as np

from examples.paper import networks
from examples.paper.schemes import Scheme
from keras_lab import LABAdam, datasets

FOLLOW = ("paper", "code")


@dataclasses.dataclass(frozen=True)
class Task:
    """What a network learns, and how it is judged.

    Args:
        loss: As in `compile`.
        metrics: As in `compile`.
        targets: Makes what the loss wants of the data set's `y`.
        measure: What the tables show: `"error"` in percent, or `"loss"`.
    """

    loss: str | keras.losses.Loss
    metrics: tuple[str, ...]
    targets: Callable[[np.ndarray], np.ndarray]
    measure: str


def one_against_all(labels: np.ndarray) -> np.ndarray:
    """+1 for the class, −1 for the others: what an SVM is trained on."""
    return 2 * np.eye(networks.CLASSES, dtype=np.float32)[labels] - 1


# The squared hinge loss, a mean over the examples and the ten outputs.
SVM = Task("squared_hinge", ("categorical_accuracy",), one_against_all, "error")


@dataclasses.dataclass(frozen=True)
class Decay:
    """The learning rate is multiplied by `factor` at the end of some epochs.

    Args:
        factor: What it is multiplied by.
        after: The epochs, where they are listed.
        every: Or every so many epochs,
        beyond: once more than this many are over.
    """

    factor: float
    after: tuple[int, ...] = ()
    every: int = 0
    beyond: int = 0

    def __call__(self, epoch: int) -> float:
        """The factor in an epoch, relative to the first one."""
        times = sum(epoch > last for last in self.after)
        if self.every:
            times += max(0, epoch - 1 - self.beyond) // self.every
        return self.factor**times


@dataclasses.dataclass(frozen=True)
class Recipe:
    """An experiment, but for the scheme and the seed.

    Args:
        title: How a table calls it.
        task: What the network learns.
        data: A function of the data folder that loads the data set.
        network: A function of `Parts` and the sizes that builds the network.
        sizes: The arguments of `network` and their values in the paper.
        batch: Images or sequences a step.
        epochs: How many.
        rate: The learning rate for binary weights, and for full precision.
        sign_rate: The same where activations are binary too.
        decay: How the learning rate falls.
        code: What of the above is different in the authors' code.
        batch_norm: Whether the network has any.
    """

    title: str
    task: Task
    data: Callable
    network: Callable
    sizes: Mapping[str, int]
    batch: int
    epochs: int
    rate: float
    sign_rate: float
    decay: Decay
    code: Mapping[str, object] = dataclasses.field(default_factory=dict)
    batch_norm: bool = True

    def following(self, whom: str) -> "Recipe":
        """The recipe as in the paper, or as in the authors' code."""
        return (
            dataclasses.replace(self, **self.code) if whom == "code" else self
        )

    def learning_rate(self, scheme: Scheme, epoch: int) -> float:
        """The learning rate of an epoch, the first of which is 1."""
        rate = self.sign_rate if scheme.input_quantizer else self.rate
        return rate * self.decay(epoch)

    def build(
        self, scheme: Scheme, follow: str, jit_compile: bool, **sizes: int
    ) -> keras.Model:
        """The network, compiled."""
        parts = networks.Parts(scheme, follow, self.batch_norm)
        model = self.network(parts, **{**self.sizes, **sizes})
        model.compile(
            optimizer=LABAdam(self.learning_rate(scheme, epoch=1)),
            loss=self.task.loss,
            metrics=self.task.metrics,
            jit_compile=jit_compile,
        )
        return model


MNIST = Recipe(
    title="MNIST",
    task=SVM,
    data=datasets.mnist,
    network=networks.mlp,
    sizes={"width": 2048},
    batch=100,
    epochs=50,
    rate=0.01,
    sign_rate=0.005,
    decay=Decay(0.1, after=(15, 25)),
)

RECIPES = {"mnist": MNIST}
