"""`Distiller`: a binary network that also learns from a float network."""

import functools
import math
import numbers

import keras
from keras import ops

from keras_lab.convert.graph import trace
from keras_lab.model_checks import check_is_model
from keras_lab.models import LABModel

__all__ = ["Distiller", "SoftTargets", "map_losses"]

register = keras.saving.register_keras_serializable(package="keras_lab")

# The arguments of `keras.Model` and `LABModel`. Keras ignores any other.
MODEL_OPTIONS = {"inputs", "outputs", "name", "trainable", "dtype"}
MODEL_OPTIONS |= {"autocast", "activity_regularizer", "log_alpha"}
# Activations of Keras whose outputs can be probabilities.
PROBABILITIES = {"softmax", "sigmoid", "hard_sigmoid", "sparse_sigmoid"}
PROBABILITIES |= {"sparsemax"}


def _is_finite(value):
    return isinstance(value, numbers.Real) and math.isfinite(value)


@register
class SoftTargets(keras.losses.Loss):
    """T²·KL(teacher ‖ student) of softmax outputs at temperature T.

    From Hinton, Vinyals and Dean (2015). The factor T² keeps the size of the
    gradient about the same for every T.

    Args:
        temperature: T, a positive float. The larger it is, the more the small
            probabilities count. Defaults to `2.0`.
        from_logits: Whether the outputs are logits. Otherwise they are
            probabilities. Defaults to `False`.
        **kwargs: As in `keras.losses.Loss`.

    Call arguments:
        y_true: The teacher's outputs.
        y_pred: The student's outputs.
    """

    def __init__(
        self,
        temperature=2.0,
        from_logits=False,
        name="soft_targets",
        **kwargs,
    ):
        if not (_is_finite(temperature) and temperature > 0):
            raise ValueError(
                "`temperature` must be a positive, finite number. "
                f"Received: temperature={temperature!r}"
            )
        super().__init__(name=name, **kwargs)
        self.temperature = float(temperature)
        self.from_logits = from_logits

    def call(self, y_true, y_pred):
        self.check_outputs(y_pred)
        teacher = self._log_probabilities(y_true)
        student = self._log_probabilities(y_pred)
        divergence = ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)
        return self.temperature**2 * divergence

    def check_outputs(self, outputs):
        """Raises ValueError if the outputs have only one class."""
        if outputs.shape[-1] == 1:
            raise ValueError(
                "SoftTargets compares the probabilities of several classes. "
                "For a single output it is always 0. Use "
                "`distillation_loss='binary_crossentropy'` after a sigmoid, "
                "'mean_squared_error' otherwise. Received: outputs of shape "
                f"{tuple(outputs.shape)}"
            )

    def _log_probabilities(self, outputs):
        # The logits of probabilities are their logarithms, up to a constant
        # that the softmax removes.
        if not self.from_logits:
            smallest = keras.config.epsilon()
            outputs = ops.log(ops.maximum(outputs, smallest))
        return ops.log_softmax(outputs / self.temperature, axis=-1)

    def get_config(self):
        config = super().get_config()
        config["temperature"] = self.temperature
        config["from_logits"] = self.from_logits
        return config


class _Mean(keras.losses.Loss):
    """The mean of a function, which `keras.losses.get` returns for a name."""

    def __init__(self, function):
        super().__init__(name="mean")
        self.call = function


@register
class Distiller(LABModel):
    """A `LABModel` that also learns from the outputs of a teacher.

        loss = compiled loss + weight · distillation_loss(teacher(x), y_pred)

    in training. `evaluate` returns the compiled loss alone. Create it from the
    inputs and outputs of a binary network: it shares the layers of that
    network, so training it trains the network, which you then save or export.

    The teacher runs in inference mode and never changes. It is not part of the
    model: neither of its weights nor of its file. After loading a `Distiller`,
    call `distiller.learn_from(teacher)` before you train it.

    Args:
        *args: As in `keras.Model`.
        teacher: The model to learn from. It has the same inputs, and outputs
            of the same structure.
        distillation_loss: A Keras loss or its name, called with the teacher's
            outputs and the student's. For several outputs, it is the sum. Each
            may have a loss of its own: a dict by the names of the outputs, or a
            list; an output without a loss does not count. Defaults to
            `SoftTargets()`, for a network that ends in a softmax. Use
            `SoftTargets(from_logits=True)` for one that ends in logits, and for
            example `"mean_squared_error"` for a regression.
        weight: A float, at least 0. Defaults to `1.0`.
        **kwargs: As in `LABModel`.

    Example:

    >>> model = keras_lab.binarize_model(trained)
    >>> distiller = keras_lab.Distiller(
    ...     model.inputs, model.outputs, teacher=trained
    ... )
    >>> distiller.compile(optimizer=keras_lab.LABAdam(), loss=...)
    >>> distiller.fit(x, y)
    >>> model.save("binary.keras")
    """

    def __init__(
        self,
        *args,
        teacher=None,
        distillation_loss=None,
        weight=1.0,
        **kwargs,
    ):
        if not (_is_finite(weight) and weight >= 0):
            raise ValueError(
                "`weight` must be a finite number, at least 0. "
                f"Received: weight={weight!r}"
            )
        unknown = {k: v for k, v in kwargs.items() if k not in MODEL_OPTIONS}
        if unknown:
            raise TypeError(
                "`Distiller` takes teacher, distillation_loss, weight and the "
                "arguments of a model. A temperature is an argument of "
                f"SoftTargets. Received: {unknown}"
            )
        super().__init__(*args, **kwargs)
        if distillation_loss is None:
            distillation_loss = SoftTargets()
        self.distillation_loss = map_losses(keras.losses.get, distillation_loss)
        self.distillation_weight = float(weight)
        self._ask = None
        if teacher is not None:
            self.learn_from(teacher)

    @property
    def teacher(self):
        """The model to learn from; `None` after loading a file."""
        return None if self._ask is None else self._ask.func

    def learn_from(self, teacher):
        """Sets the teacher, which must match this model and its loss."""
        check_is_model(teacher, "teacher")
        if hasattr(self, "outputs"):
            self._check_outputs()
        # If the teacher were an attribute, Keras would make it a part of this
        # model.
        self._ask = functools.partial(teacher, training=False)
        # A compiled step would keep the old teacher.
        self.train_function = None

    def _check_outputs(self):
        """Raises ValueError if outputs are known not to be probabilities."""
        graph = trace(self)
        layers = {
            id(y): call.layer
            for call in graph.calls
            for y in keras.tree.flatten(call.outputs)
        }
        for loss, output in zip(self._loss_of_each(self.output), graph.outputs):
            if isinstance(loss, SoftTargets):
                loss.check_outputs(output)
                if not loss.from_logits and id(output) in layers:
                    _check_activation(layers[id(output)])

    def _loss_of_each(self, outputs):
        """The loss of each output, in the order of `keras.tree.flatten`."""
        losses, count = self.distillation_loss, len(keras.tree.flatten(outputs))
        if not isinstance(losses, (dict, list)):
            return [losses] * count
        names = sorted(outputs) if isinstance(outputs, dict) else None
        names = names or getattr(self, "output_names", list(range(count)))
        if isinstance(losses, list):
            losses = dict(zip(names, losses)) if len(losses) == count else None
        if losses is None or not set(losses) <= set(names):
            raise ValueError(
                "`distillation_loss` must have a loss for each of the outputs "
                f"{names}. Received: {self.distillation_loss}"
            )
        return [losses.get(name) for name in names]

    def compute_loss(
        self,
        x=None,
        y=None,
        y_pred=None,
        sample_weight=None,
        training=True,
    ):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if not training or self.distillation_weight == 0:
            return loss
        return loss + self.distillation_weight * self._distillation(
            x, y_pred, sample_weight
        )

    def make_train_function(self, force=False):
        # On JAX an error inside a step would lose the weights.
        if self.distillation_weight > 0:
            self._check_teacher()
        return super().make_train_function(force)

    def _check_teacher(self):
        if self._ask is None:
            raise ValueError(
                f"Distiller '{self.name}' has no teacher, because a file does "
                "not include it. Call `distiller.learn_from(teacher)` first. "
                "Received: teacher=None"
            )

    def _distillation(self, x, y_pred, sample_weight):
        self._check_teacher()
        taught = self._ask(x)
        if isinstance(taught, dict) and isinstance(y_pred, dict):
            if set(taught) != set(y_pred):
                raise ValueError(
                    "The teacher must have the outputs of the student, "
                    f"{sorted(y_pred)}. Received: {sorted(taught)}"
                )
        elif isinstance(taught, dict) and isinstance(y_pred, (list, tuple)):
            # A list of outputs may be in any order.
            names = getattr(self, "output_names", ())
            if set(names) == set(taught):
                taught = [taught[name] for name in names]
        losses = self._loss_of_each(y_pred)
        taught = [ops.stop_gradient(y) for y in keras.tree.flatten(taught)]
        outputs = keras.tree.flatten(y_pred)
        shapes = [[tuple(y.shape[1:]) for y in ys] for ys in (taught, outputs)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "The teacher must have outputs of the same shapes as the "
                f"student, {shapes[1]} per sample. Received: {shapes[0]}"
            )
        weights = keras.tree.flatten(sample_weight)
        if len(weights) == 1:
            weights *= len(outputs)
        total = 0.0
        for loss, *tensors in zip(
            losses, taught, outputs, weights, strict=True
        ):
            if loss is not None:
                is_object = isinstance(loss, keras.losses.Loss)
                total += (loss if is_object else _Mean(loss))(*tensors)
        return total

    def get_config(self):
        loss = keras.saving.serialize_keras_object(self.distillation_loss)
        return {
            **super().get_config(),
            "distillation_loss": loss,
            "weight": self.distillation_weight,
        }


def map_losses(function, losses):
    """Applies a function to one loss, or to each in a dict or list."""
    if isinstance(losses, dict) and "class_name" not in losses:
        return {k: map_losses(function, loss) for k, loss in losses.items()}
    if isinstance(losses, (list, tuple)):
        return [map_losses(function, loss) for loss in losses]
    return function(losses)


def _check_activation(layer):
    """Raises ValueError if a layer is known not to return probabilities."""
    activation = getattr(layer, "activation", None)
    name = getattr(activation, "__name__", "")
    known = getattr(keras.activations, name, None) is activation
    if activation and known and name not in PROBABILITIES:
        raise ValueError(
            "SoftTargets compares probabilities. Use "
            "`distillation_loss=SoftTargets(from_logits=True)` for a "
            "classifier that ends in logits, 'mean_squared_error' for a "
            f"regression. Received: layer '{layer.name}' with "
            f"activation='{name}'"
        )
