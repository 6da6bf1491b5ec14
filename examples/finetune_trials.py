"""What `finetune.py` can try besides its defaults."""

import keras
from keras import ops

import keras_lab
from keras_lab.quantizers import SignActivation

__all__ = ["Center", "SignOfReLU", "TwoSteps", "center_kernels"]

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


def center_kernels(trained, filters, standardize) -> None:
    """Gives the layers that become binary the constraint `Center`."""
    _, report = keras_lab.binarize_model(
        trained, filters=filters, return_report=True
    )
    layers = keras_lab.walk(trained)
    for path in report.converted:
        layers[path].kernel_constraint = Center(standardize)


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
