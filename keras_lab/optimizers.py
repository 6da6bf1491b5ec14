"""Adam as in Algorithm 1: it knows the curvature and keeps α up to date."""

import math
import numbers
import types

import keras
import numpy as np
from keras import ops

from keras_lab._backend import backend
from keras_lab.binary_weight import Scale, weights_of
from keras_lab.ops import Elementwise, sum_dtype

__all__ = ["LABAdam", "refresh"]


@keras.saving.register_keras_serializable(package="keras_lab")
class LABAdam(keras.optimizers.Adam):
    """Adam as in Algorithm 1, which also updates the scale α of binary weights.

    For each trainable variable, with bias-corrected moments m̂ and v̂,

        d = (ε + √v̂) / η,        w ← w − m̂ ⊘ d.

    After the update and the constraints it sets the scale of each latent weight
    to α = ‖d ⊙ w‖₁ / ‖d‖₁. So the next forward pass uses w^t and d^{t−1}, as in
    the paper. Before the first step there is no second moment, and α = mean|w|.

    Keras' own `Adam` adds ε to √v before the bias correction, and its ε is
    1e-7. Here ε is added after it, as in the paper. The authors' code adds 1e-8
    to the uncorrected √v; the two differ only in the weight of ε during the
    first few thousand steps.

    A gradient entry whose square is not finite counts as zero, because it would
    turn the weight, its moments and α into NaN for good. The loss in the logs
    still shows the problem.

    How the options affect α:

    - `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor` change the
      gradient before the moments, so d is the curvature of what is applied.
    - `weight_decay` shrinks the latent weight; α is that of the shrunk weight.
    - `learning_rate`: α does not depend on it.
    - `gradient_accumulation_steps`: α changes when the weights do.
    - `amsgrad`: d uses the maximum of the second moments, like the update.
    - `use_ema`: α belongs to the weights in use. When Keras overwrites them
      with their averages (every `ema_overwrite_frequency` steps, or at the end
      of `fit`), α is that of the averages. `keras.callbacks.SwapEMAWeights`
      exchanges weights and leaves α: a file that is saved then has the α of the
      averages, but call `keras_lab.refresh(model)` before you export.
    - Under the policy `mixed_float16` Keras wraps the optimizer, which is then
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
        # In a namespace, because Keras and TensorFlow would track a list.
        self._given = types.SimpleNamespace(variables=[])
        # While `apply` runs, whose last act is to count the step. Replicas
        # share the optimizer, and wait for each other there.
        self.is_applying = False

    def build(self, var_list):
        if self.built:
            return
        for variable in var_list:
            if variable.dtype == "float16":
                raise ValueError(
                    "`LABAdam` cannot train float16 variables: their second "
                    "moments underflow. Use the 'mixed_float16' policy, which "
                    "keeps variables in float32. "
                    f"Received: {variable.path} of dtype {variable.dtype}"
                )
        # On JAX they include each α, which Adam must not update.
        self._given.variables = list(var_list)
        var_list = _without_scales(var_list)
        # Adam's own `build` keeps the moments in private attributes.
        super(keras.optimizers.Adam, self).build(var_list)
        self.momentums, self.velocities = self.add_optimizer_variables(
            var_list, ["momentum", "velocity"]
        )
        self.max_velocities = []
        if self.amsgrad:
            self.max_velocities = self.add_optimizer_variables(
                var_list, "velocity_hat"
            )
        for weight in weights_of(var_list):
            weight.optimizer = self

    def velocity(self, variable):
        """Returns the second moment v of a variable, without bias correction.

        With `amsgrad`, its maximum so far. It is a variable of the optimizer,
        not a copy. Raises ValueError if the optimizer does not train
        `variable`.
        """
        if not self.built:
            raise ValueError(
                "The optimizer has no moments yet. Call `build(variables)`, or "
                "take a step."
            )
        velocities = self.max_velocities or self.velocities
        try:
            return velocities[self._get_variable_index(variable)]
        except KeyError:
            raise ValueError(
                "The optimizer does not train this variable. "
                f"Received: variable={variable}"
            ) from None

    def curvature(self, variable, learning_rate=None):
        """Returns d = (ε + √v̂) / η with the present moments.

        Args:
            variable: A variable that the optimizer trains.
            learning_rate: η. Defaults to the present learning rate. At zero d
                is infinite; at 1 it is the same up to a factor.
        """
        function, v = self.relative_curvature(variable)
        correction = self._correction(self._updates(), v.dtype)
        if learning_rate is None:
            learning_rate = self.learning_rate
        rate = ops.cast(learning_rate, correction.dtype) * correction
        return function(v) / ops.cast(rate, v.dtype)

    def relative_curvature(self, variable):
        """Returns √v + ε√(1−β₂ᵗ) as an `Elementwise`.

        That is d without the factor 1/(η√(1−β₂ᵗ)). α does not depend on it, and
        without it a learning rate of zero is no problem.
        """
        v = self.velocity(variable)
        epsilon = self.epsilon * self._correction(self._updates(), v.dtype)
        return Elementwise(
            lambda v: (
                backend.sqrt(ops.convert_to_tensor(v))
                + ops.cast(epsilon, v.dtype)
            ),
            v,
        )

    def update_step(self, gradient, variable, learning_rate):
        dtype = keras.backend.standardize_dtype(variable.dtype)
        index = self._get_variable_index(variable)
        m, v = self.momentums[index], self.velocities[index]
        g = backend.finite(ops.cast(backend.dense(gradient), dtype))

        step = self.iterations + 1
        correction = self._correction(step, dtype)
        rate = ops.cast(learning_rate, correction.dtype) * correction
        rate = ops.cast(rate / _unbias(self.beta_1, step, dtype), dtype)
        epsilon = ops.cast(self.epsilon * correction, dtype)

        # XLA does not have TensorFlow's AMSGrad kernel, and in half precision
        # 0.999 is 1.
        if not self.amsgrad and dtype in ("float32", "float64"):
            betas = (self.beta_1, self.beta_2)
            backend.adam_update(variable, m, v, g, rate, betas, epsilon)
            return
        self.assign_add(m, (g - m) * (1 - self.beta_1))
        self.assign_add(v, (ops.square(g) - v) * (1 - self.beta_2))
        if self.amsgrad:
            v_max = self.max_velocities[index]
            self.assign(v_max, ops.maximum(v_max, v))
            v = v_max
        root = backend.sqrt(ops.convert_to_tensor(v))
        self.assign_sub(variable, rate * m / (root + epsilon))

    def apply(self, grads, trainable_variables=None):
        grads, variables = list(grads), self._given.variables
        if trainable_variables is not None:
            trainable_variables = variables = list(trainable_variables)
        elif len(grads) < len(variables):
            variables = _without_scales(variables)
        if not grads or len(grads) != len(variables):
            # There is nothing to do, or Keras says what is wrong.
            return super().apply(grads, trainable_variables)
        if not self.built:
            self.build(variables)
        known = set(weights_of(self._given.variables))
        for weight in known.intersection(weights_of(variables)):
            weight.optimizer = self
        pairs = [
            (gradient, variable)
            for gradient, variable in zip(grads, variables)
            if not isinstance(variable, Scale)
        ]
        self.is_applying = True
        try:
            super().apply([g for g, _ in pairs], [v for _, v in pairs])
        finally:
            self.is_applying = False

    def finalize_variable_values(self, var_list):
        var_list = _without_scales(var_list)
        super().finalize_variable_values(var_list)
        if self.use_ema:
            for variable in var_list:
                # On JAX the variable and its average share their memory now,
                # and the next training step would free it twice.
                variable.assign(ops.copy(variable))
            for weight in weights_of(var_list):
                weight.refresh()

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        if not backend.SCALE_IS_TRAINABLE:
            raise NotImplementedError(
                "`LABAdam` has a stateless form only on the JAX backend. Use "
                "`apply`. Received: KERAS_BACKEND="
                f"{keras.config.backend()}"
            )
        variables = self._given.variables
        if len(trainable_variables) != len(variables):
            raise ValueError(
                "`trainable_variables` must have a value for each of the "
                f"{len(variables)} variables that the optimizer was built "
                "with. If you have changed `layer.trainable`, call `compile` "
                f"again. Received: {len(trainable_variables)} values"
            )
        state = list(zip(variables, trainable_variables))
        state += list(zip(self.variables, optimizer_variables))
        with keras.StatelessScope(state_mapping=state) as scope:
            self.apply(grads, variables)
        return (
            [scope.get_current_value(variable) for variable in variables],
            [scope.get_current_value(variable) for variable in self.variables],
        )

    def knows_curvature(self) -> bool:
        """Whether a step, or a file that was loaded, has given it moments."""
        return self.is_applying or bool(ops.convert_to_numpy(self.iterations))

    def _updates(self):
        """The number of updates of v, in `apply` with the present one."""
        steps = self._iterations + int(self.is_applying)
        return ops.floor_divide(steps, self.gradient_accumulation_steps or 1)

    def _correction(self, step, dtype):
        """√(1−β₂ᵗ), but 1 at t = 0, when v = v̂ = 0."""
        unbias = _unbias(self.beta_2, step, dtype)
        return ops.where(
            ops.equal(step, 0), ops.ones_like(unbias), backend.sqrt(unbias)
        )


def refresh(model: keras.Layer) -> None:
    """Computes the scale α of every binary weight of a model again.

    Call it after you have changed latent weights by hand. If a `LABAdam` trains
    the weights, α uses its curvature. Otherwise the curvature of a LAB weight
    is assumed to be uniform: α = mean|w|.

    Args:
        model: A Keras model or layer that is built.

    Example:

    >>> model.layers[0].kernel.assign(new_kernel)
    >>> keras_lab.refresh(model)
    """
    if not isinstance(model, keras.Layer):
        raise TypeError(
            "`model` must be a Keras model or layer. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    for weight in weights_of(model.weights):
        weight.refresh()


def _without_scales(variables):
    return [v for v in variables if not isinstance(v, Scale)]


def _unbias(beta, step, dtype):
    """1 − βᵗ, without the cancellation that costs float32 five digits.

    β is rounded as a kernel in this dtype rounds it, at least to float32.
    """
    dtype = sum_dtype(dtype)
    log_beta = math.log(max(float(np.dtype(dtype).type(beta)), 1e-30))
    return -backend.expm1(ops.cast(step, dtype) * log_beta)
