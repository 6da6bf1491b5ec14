"""Which scale a latent weight gets, and how inputs are binarized.

A kernel quantizer chooses α for ŵ = α·sign(w); an input quantizer is applied to
the inputs of a layer. Both are small serializable objects that are saved in the
layer's config.
"""

import keras

from keras_lab import ops

__all__ = ["BWN", "LAB", "BinaryConnect", "KernelQuantizer", "SignActivation"]

register = keras.saving.register_keras_serializable(package="keras_lab")


class _Quantizer:
    """What Keras needs to save a quantizer, and a `repr` that makes it."""

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def __repr__(self):
        arguments = self.get_config().items()
        arguments = ", ".join(f"{name}={value!r}" for name, value in arguments)
        return f"{type(self).__name__}({arguments})"


class KernelQuantizer(_Quantizer):
    """Chooses the scale α of a binary weight ŵ = α·sign(w).

    Args:
        scale: `"tensor"` for one α per weight tensor, as in the paper, or
            `"channel"` for one α per output channel, by the same formula.
            Defaults to `"tensor"`.
    """

    needs_curvature = False

    def __init__(self, scale="tensor"):
        if scale not in ("tensor", "channel"):
            raise ValueError(
                "`scale` must be 'tensor' or 'channel'. "
                f"Received: scale={scale!r}"
            )
        self.scale = scale

    def compute_scale(self, w, d=None, keep=()):
        """Returns α for the latent weight w.

        Args:
            w: The latent weight.
            d: Its curvature, a tensor of the same shape or a
                `keras_lab.ops.Elementwise`; `None` if it is not known.
            keep: The axes of w along which α varies.
        """
        raise NotImplementedError

    def scale_bounds(self, w, keep=()):
        """Returns the least and the greatest α that w can have.

        Without curvature there is only one. With it, a subclass says which
        values of α are possible for any curvature.
        """
        if self.needs_curvature:
            return 0.0, float("inf")
        scale = self.compute_scale(w, None, keep)
        return scale, scale

    def get_config(self):
        return {"scale": self.scale}


@register
class LAB(KernelQuantizer):
    """Loss-aware binarization: α = ‖d ⊙ w‖₁ / ‖d‖₁ (Proposition 3.1).

    The curvature d comes from `keras_lab.LABAdam`. Without it d is assumed to
    be uniform, and LAB is the same as BWN (Remark 3.1).

    Args:
        scale: `"tensor"` or `"channel"`, see `KernelQuantizer`.
    """

    needs_curvature = True

    def compute_scale(self, w, d=None, keep=()):
        if d is None:
            return ops.bwn_scale(w, keep)
        return ops.lab_scale(w, d, keep)

    def scale_bounds(self, w, keep=()):
        w = keras.ops.abs(w)
        axes = [axis for axis in range(len(w.shape)) if axis not in keep]
        return keras.ops.min(w, axes), keras.ops.max(w, axes)


@register
class BWN(KernelQuantizer):
    """Binary-Weight-Network: α = mean|w| (Rastegari et al., 2016).

    Args:
        scale: `"tensor"` or `"channel"`, see `KernelQuantizer`.
    """

    def compute_scale(self, w, d=None, keep=()):
        return ops.bwn_scale(w, keep)


@register
class BinaryConnect(KernelQuantizer):
    """BinaryConnect: α = 1 (Courbariaux et al., 2015), deterministic.

    Args:
        scale: `"tensor"` or `"channel"`, see `KernelQuantizer`.
    """

    def compute_scale(self, w, d=None, keep=()):
        # A NaN has no sign. It must not go unnoticed, so α is NaN, too.
        return ops.binary_connect_scale(w, keep) + 0 * ops.bwn_scale(w, keep)


@register
class SignActivation(_Quantizer):
    """sign(x) in {−1, +1}; the gradient passes where |x| ≤ 1."""

    def __call__(self, x):
        return ops.sign_activation(x)


def get_kernel_quantizer(identifier):
    """The kernel quantizer for a layer's `kernel_quantizer` argument."""
    known = {"lab": LAB, "bwn": BWN, "binary_connect": BinaryConnect}
    return _get("kernel_quantizer", identifier, known, KernelQuantizer)


def get_input_quantizer(identifier):
    """The input quantizer for a layer's `input_quantizer` argument."""
    return _get(
        "input_quantizer", identifier, {"sign": SignActivation}, SignActivation
    )


def _get(argument, identifier, known, base):
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, str) and identifier in known:
        return known[identifier]()
    if identifier is None or isinstance(identifier, base):
        return identifier
    names = ", ".join(repr(name) for name in known)
    raise ValueError(
        f"`{argument}` must be None, {names} or a "
        f"`keras_lab.quantizers.{base.__name__}` object. "
        f"Received: {argument}={identifier!r}"
    )
