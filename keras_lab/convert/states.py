"""Sets the weights and other states of a layer that was created again."""

import tempfile

from keras_lab.binary_weight import weights_of
from keras_lab.convert.counterparts import is_altered
from keras_lab.layer_tree import with_inner_layers

__all__ = ["assign", "assign_latents", "copy_state", "without_alphas"]


def copy_state(layer, new):
    """Copies what is neither in a config nor a weight."""
    for old_part, new_part in zip(
        with_inner_layers(layer), with_inner_layers(new)
    ):
        if type(old_part) is not type(new_part):
            continue
        if hasattr(old_part, "finalize_state"):
            # Adapted to data, as a Normalization is.
            variables = {}
            old_part.save_own_variables(variables)
            new_part.load_own_variables(variables)
        if hasattr(old_part, "save_assets"):
            with tempfile.TemporaryDirectory() as folder:
                old_part.save_assets(folder)
                new_part.load_assets(folder)


def assign_latents(layer, new) -> None:
    """Gives a rebuilt layer with binary weights the weights of a layer."""
    values = [(weight.name, weight.numpy()) for weight in layer.weights]
    assign(new, without_alphas(new.weights), values)
    for weight in weights_of(new.weights):
        weight.refresh()


def without_alphas(weights):
    """The weights without those that only binary layers have."""
    alphas = {id(weight.alpha) for weight in weights_of(weights)}
    return [weight for weight in weights if id(weight) not in alphas]


def assign(layer, weights, values) -> None:
    """Sets some weights of a rebuilt layer to pairs of a name and an array."""
    expected = [(_name(w.name), tuple(w.shape)) for w in weights]
    received = [(_name(name), value.shape) for name, value in values]
    if expected != received:
        altered = is_altered(layer)
        advice = (
            f"A layer inside it {altered}: convert the model before that."
            if altered
            else "Give its class a `get_config` with all arguments of "
            "`__init__`."
        )
        raise ValueError(
            f"Layer '{layer.name}' does not match its config: rebuilt from it, "
            f"the layer has the weights {expected}. {advice} "
            f"Received: {received}"
        )
    for weight, (_, value) in zip(weights, values):
        weight.assign(value)


def _name(name):
    # A weight without a name is called `variable_17`.
    return name.rstrip("_0123456789")
