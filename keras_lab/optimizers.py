"""Adam as in Algorithm 1, which knows the curvature and keeps α true."""

import math
import numbers

import keras
import numpy as np
from keras import ops

from keras_lab import _tensorflow as backend
from keras_lab.binary_weight import (
    keras_variables,
    refreshed_by_optimizer,
    weights_of,
)
from keras_lab.ops import Elementwise

__all__ = ["LABAdam"]


@keras.saving.register_keras_serializable(package="keras_lab")
class LABAdam(keras.optimizers.Adam):
    """The Adam of Algorithm 1: it also gives every binary weight its scale α.

    For each trainable variable, with bias-corrected moments m̂ and v̂,

        d = (ε + √v̂) / η,        w ← w − m̂ ⊘ d.

    After the update and after the constraints it sets the scale of each latent
    weight to α = ‖d ⊙ w‖₁ / ‖d‖₁, so the next forward pass uses w^t and
    d^{t−1}, the paper's order. Before the first step there is no second moment
    and α = mean|w|.

    Keras' own `Adam` adds ε to √v before the bias correction, and its ε is
    1e-7. Here it is added after, as in the paper. The authors' code adds 1e-8
    to the uncorrected √v; the two agree but for the weight of ε in the first
    few thousand steps.

    A gradient entry that is not finite counts as zero: it would turn the
    weight, its moments and α into NaN for good. The loss in the logs still
    shows it.

    What the options mean for α:

    - `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor` act on the
      gradient before the moments: d is the curvature of what is applied.
    - `weight_decay` shrinks the latent weight; α is that of the shrunk weight.
    - `learning_rate` of any kind: it cancels in α.
    - `gradient_accumulation_steps`: α changes when the weights do.
    - `amsgrad`: d uses the maximum of the second moments, as the update does.
    - `use_ema`: α follows the weights in use. When Keras overwrites them with
      their averages (every `ema_overwrite_frequency` steps, or at the end of
      `fit`) α is that of the averages. `keras.callbacks.SwapEMAWeights` tells
      nobody: α stays that of the weights before the swap.
    - Under the policy `mixed_float16` Keras wraps the optimizer: it is then
      `model.optimizer.inner_optimizer`.

    Args:
        learning_rate: As in Keras. Defaults to `0.001`.
        beta_1: A float in [0, 1). Defaults to `0.9`.
        beta_2: A float in [0, 1). Defaults to `0.999`.
        epsilon: A positive float. Defaults to `1e-8`.
        amsgrad, **kwargs: As in `keras.optimizers.Adam`.

    Example:

    >>> model.compile(optimizer=keras_lab.LABAdam(0.01), loss="squared_hinge")
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-8,
        amsgrad=False,
        **kwargs,
    ):
        for name, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not (isinstance(beta, numbers.Real) and 0 <= beta < 1):
                raise ValueError(
                    f"`{name}` must be a float in [0, 1). "
                    f"Received: {name}={beta!r}"
                )
        if not (isinstance(epsilon, numbers.Real) and epsilon > 0):
            raise ValueError(
                "`epsilon` must be a positive float, so that the curvature is "
                f"positive. Received: epsilon={epsilon!r}"
            )
        super().__init__(
            learning_rate=learning_rate,
            beta_1=float(beta_1),
            beta_2=float(beta_2),
            epsilon=float(epsilon),
            amsgrad=amsgrad,
            **kwargs,
        )

    def build(self, var_list):
        for variable in var_list:
            if variable.dtype == "float16":
                raise ValueError(
                    "`LABAdam` cannot train float16 variables: their second "
                    "moments underflow. Use the 'mixed_float16' policy, which "
                    "keeps variables in float32. "
                    f"Received: {variable.path} of dtype {variable.dtype}"
                )
        super().build(var_list)

    def velocity(self, variable):
        """The second moment v of a variable, before the bias correction.

        With `amsgrad`, its maximum so far. A variable of the optimizer, not a
        copy.
        """
        if not self.built:
            raise ValueError(
                "The optimizer has no moments yet: call `build(variables)`, or "
                "take a step."
            )
        self._check_variables_are_known([variable])
        index = self._get_variable_index(variable)
        return (self._velocity_hats if self.amsgrad else self._velocities)[
            index
        ]

    def curvature(self, variable, learning_rate=None):
        """d = (ε + √v̂) / η, with the moments of now.

        Args:
            variable: A variable that the optimizer trains.
            learning_rate: η; that of now, unless given. At a rate of zero d is
                infinite; 1 gives the same d but for a factor.
        """
        v = self.velocity(variable)
        direction = self._curvature_direction(v)
        correction = self._correction(self.iterations, v.dtype)
        if learning_rate is None:
            learning_rate = self.learning_rate
        rate = ops.cast(learning_rate, correction.dtype) * correction
        return direction.function(v) / ops.cast(rate, v.dtype)

    def update_step(self, gradient, variable, learning_rate):
        dtype = keras.backend.standardize_dtype(variable.dtype)
        index = self._get_variable_index(variable)
        m, v = self._momentums[index], self._velocities[index]
        g = _finite(ops.cast(backend.dense(gradient), dtype))

        step = self.iterations + 1
        correction = self._correction(step, dtype)
        rate = ops.cast(learning_rate, correction.dtype) * correction
        rate = ops.cast(rate / _unbias(self.beta_1, step, dtype), dtype)
        epsilon = ops.cast(self.epsilon * correction, dtype)

        # TensorFlow's own kernel of AMSGrad is unknown to XLA, and in a half
        # 0.999 is one.
        if not self.amsgrad and dtype in ("float32", "float64"):
            betas = (self.beta_1, self.beta_2)
            backend.adam_update(variable, m, v, g, rate, betas, epsilon)
            return
        self.assign_add(m, (g - m) * (1 - self.beta_1))
        self.assign_add(v, (ops.square(g) - v) * (1 - self.beta_2))
        if self.amsgrad:
            v_max = self._velocity_hats[index]
            self.assign(v_max, ops.maximum(v_max, v))
            v = v_max
        self.assign_sub(variable, rate * m / (ops.sqrt(v) + epsilon))

    def apply(self, grads, trainable_variables=None):
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = keras_variables(list(trainable_variables))
        with refreshed_by_optimizer():
            super().apply(grads, trainable_variables)
        variables = trainable_variables or self._trainable_variables
        self._refresh_scales(
            [v for g, v in zip(grads, variables) if g is not None]
        )

    def finalize_variable_values(self, var_list):
        super().finalize_variable_values(var_list)
        if self.use_ema:
            self._refresh_scales(var_list)

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        raise NotImplementedError(
            "`LABAdam` updates the scale of each binary weight, which is "
            "neither an optimizer variable nor a trainable one: it has no "
            "stateless form."
        )

    def _refresh_scales(self, variables):
        for weight in weights_of(variables):
            v = self.velocity(weight.latent)
            weight.refresh(self._curvature_direction(v))

    def _curvature_direction(self, v):
        """√v + ε√(1−β₂ᵗ): d but for the factor η√(1−β₂ᵗ), which α cancels.

        Unlike d it exists at a learning rate of zero.
        """
        epsilon = self.epsilon * self._correction(self.iterations, v.dtype)
        return Elementwise(
            lambda v: ops.sqrt(v) + ops.cast(epsilon, v.dtype), v
        )

    def _correction(self, step, dtype):
        """√(1−β₂ᵗ), and 1 at t = 0, where v = v̂ = 0."""
        unbias = _unbias(self.beta_2, step, dtype)
        return ops.where(ops.equal(step, 0), 1.0, ops.sqrt(unbias))


def _unbias(beta, step, dtype):
    """1 − βᵗ without the cancellation that costs float32 five digits.

    Of β as a kernel in this dtype has it, and at least in float32.
    """
    dtype = keras.backend.result_type(dtype, "float32")
    log_beta = math.log(max(float(np.dtype(dtype).type(beta)), 1e-30))
    return -ops.expm1(ops.cast(step, dtype) * log_beta)


def _finite(g):
    """The gradient, with zeros where its square is not finite."""

    def masked():
        return ops.where(_squares_are_finite(g), g, ops.zeros_like(g))

    if backend.is_compiling():
        # Part of the update then, and free.
        return masked()
    # Looking at every entry costs more than the sum that tells whether to.
    return ops.cond(_squares_are_finite(ops.sum(g)), lambda: g, masked)


def _squares_are_finite(x):
    return ops.isfinite(ops.square(x))
