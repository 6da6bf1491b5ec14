"""The pictures of the README, from a training that they watch.

    python examples/gallery.py

Trains the paper's MNIST network, narrower than the paper's, with LAB, and draws
what `keras_lab.callbacks.BinaryMonitor` and `keras_lab.analysis.plots` see.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras

from examples.paper.recipes import MNIST
from examples.paper.schemes import SCHEMES
from examples.records import environment, write_json
from keras_lab.analysis import plots
from keras_lab.callbacks import BinaryMonitor

GALLERY = Path(__file__).resolve().parents[1] / "results" / "gallery"


def train(arguments) -> tuple[keras.Model, tuple, dict]:
    """The trained network, a batch of its data, and Keras' history."""
    keras.utils.set_random_seed(arguments.seed)
    data = MNIST.load(arguments.data_dir)
    x, y = data.train.x, MNIST.task.targets(data.train.y)
    test = data.test.x, MNIST.task.targets(data.test.y)
    model = MNIST.build(SCHEMES["lab"], 10, width=arguments.width)
    schedule = keras.callbacks.LearningRateScheduler(
        # The paper's ten-fold drops, after 15 and 25 of 50 epochs, sooner.
        lambda epoch: (
            MNIST.rate
            * 0.1 ** sum(10 * epoch >= n * arguments.epochs for n in (5, 8))
        )
    )
    monitor = BinaryMonitor(arguments.output / "monitor.csv")
    history = model.fit(
        x,
        y,
        batch_size=MNIST.batch,
        epochs=arguments.epochs,
        validation_data=test,
        callbacks=[schedule, monitor],
        verbose=2,
    )
    monitor.plot(arguments.output / "trajectories.png")
    return model, (x[:1000], y[:1000]), history.history


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--epochs", type=int, default=10)
    add("--width", type=int, default=512, help="units a layer; paper: 2048")
    add("--seed", type=int, default=1)
    add("--data-dir", help="default: KERAS_LAB_DATA, or else Keras' home")
    add("--output", type=Path, default=GALLERY)
    arguments = parser.parse_args(argv)
    if arguments.epochs < 1 or arguments.width < 1:
        parser.error(
            "--epochs and --width must be at least 1. Received: "
            f"--epochs {arguments.epochs} --width {arguments.width}"
        )
    arguments.output.mkdir(parents=True, exist_ok=True)
    model, batch, history = train(arguments)
    plots.latent_weights(model, arguments.output / "latent_weights.png")
    plots.gradients(model, *batch, arguments.output / "gradients.png")
    write_json(
        arguments.output / "history.json",
        {
            "configuration": {
                "epochs": arguments.epochs,
                "width": arguments.width,
                "seed": arguments.seed,
            },
            "environment": environment(),
            "history": history,
        },
    )
    print(f"The pictures are in {arguments.output}")


if __name__ == "__main__":
    main()
