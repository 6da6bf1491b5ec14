"""Trials: settings of the fine-tuning that `finetune.py` does not have.

    python examples/finetune_trials.py --validation --images 12800 --epochs 6 \\
        --center mean

It has all options of `finetune.py`, and more. `--validation` chooses settings
without looking at the test images: it trains on 45,000 images of CIFAR-10 and
measures on 5,000 others.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras
from keras import ops

import keras_lab
from examples import finetune
from examples.paper import data as datasets
from examples.paper.data import Part
from keras_lab.quantizers import SignActivation

register = keras.saving.register_keras_serializable(package="finetune")


@register
class Center(keras.constraints.Constraint):
    """Subtracts its mean from the kernel of each output channel.

    So half of the signs are positive, as in IR-Net, which also divides by the
    standard deviation.
    """

    def __init__(self, standardize):
        self.standardize = standardize

    def __call__(self, w):
        axes = tuple(range(len(w.shape) - 1))
        w = w - ops.mean(w, axes, keepdims=True)
        return w / ops.std(w, axes, keepdims=True) if self.standardize else w

    def get_config(self):
        return {"standardize": self.standardize}


def center_kernels(trained, options) -> None:
    """Gives the layers that become binary the constraint `Center`."""
    _, report = keras_lab.binarize_model(
        trained,
        filters=lambda layer: not finetune.stays_float(layer, options),
        return_report=True,
    )
    layers = keras_lab.walk(trained)
    for path in report.converted:
        layers[path].kernel_constraint = Center(options.center == "standard")


@register
class SignOfReLU(SignActivation):
    """sign(x − 1/2), because the results of a ReLU are all positive or zero."""

    def __call__(self, x):
        return super().__call__(x - 0.5)


class TwoSteps(keras_lab.callbacks.ProgressiveBinarization):
    """Trains all layers with float weights at first, then with binary ones."""

    def on_epoch_begin(self, epoch, logs=None):
        # Before the first epoch no layer is binary.
        super().on_epoch_begin(-1 if epoch < self.epochs else epoch)


def parse(argv=None):
    parser = finetune.make_parser()
    add = parser.add_argument
    add("--images", type=int, help="train only on the first N images")
    add("--validation", action="store_true", help="leave out the test images")
    add("--center", choices=("mean", "standard"), help="the latent kernels")
    add("--inputs", choices=("sign",), help="binarize them, too")
    add("--two-step", type=int, default=0, help="epochs with float weights")
    options = finetune.parse(parser, argv)
    if not 0 <= options.two_step < options.epochs:
        parser.error("--two-step must be less than --epochs.")
    return options


def main(argv=None):
    options = parse(argv)
    keras_lab.config.keep_memory()
    trained, train, test = finetune.load(options)
    if options.validation:
        data = datasets.cifar10(raw=True)
        train, test = data.train, finetune.as_float(data.validation)
    train = Part(*(array[: options.images] for array in train))
    if options.center:
        center_kernels(trained, options)
    options.output.mkdir(parents=True, exist_ok=True)
    trial = {
        "progressive": TwoSteps(options.two_step) if options.two_step else None,
        "input_quantizer": SignOfReLU() if options.inputs else None,
    }
    for seed in options.seed:
        for scheme in options.scheme:
            finetune.run(trained, train, test, options, scheme, seed, **trial)


if __name__ == "__main__":
    main()
