"""Custom layers with binary sublayers.

A custom layer, such as a transformer block, creates the layers inside it in
`__init__` or `build` and keeps them as attributes. `BinaryBlock` extends its
class: when such an attribute is set, the binary counterpart of the layer takes
its place. The rest of the class, such as `call`, stays as it is.

A plan says which attributes to replace. Its keys are their names, for a layer
in a list or dict with the index or key: `"dense"`, `"layers/0"`. Its values are
changes: `{"options": …, "limit": …}` as in `convert_config`, or `{"plan": …}`
for a custom layer inside the custom layer.
"""

import functools
import json
import re
import sys
import types
from textwrap import shorten

import keras

from keras_lab._backend import backend
from keras_lab.binary_weight import full_precision, weights_of
from keras_lab.convert.counterparts import convert_config, is_binary, use_class
from keras_lab.convert.rebuild import known_arguments, unchanged_seeds
from keras_lab.convert.serializer import Serializer
from keras_lab.convert.states import assign_latents
from keras_lab.convert.trial_calls import computes_the_same, outputs, same
from keras_lab.layer_tree import with_inner_layers
from keras_lab.model_checks import is_keras_class

__all__ = ["BinaryBlock", "attribute_layers", "change_config", "problem_of"]

PACKAGE = "keras_lab"


class BinaryBlock:
    """A mixin that replaces the sublayers of a custom layer with binary ones.

    Its config holds that of the custom layer and the plan. Each plan has a
    class of its own, because `__init__` of the custom layer needs it.
    """

    _base = None
    _plan = {}
    _given = None

    def __setattr__(self, name, value):
        super().__setattr__(name, self._replaced(name, value))
        if isinstance(value, list) and any(
            key.startswith(f"{name}/") for key in self._plan
        ):
            self._replace_appended(name, getattr(self, name))

    def _replace_appended(self, name, parts):
        """Replaces layers also when they are appended to a list."""
        append = parts.append

        def append_replaced(part):
            append(self._replaced(f"{name}/{len(parts)}", part))

        def extend_replaced(more):
            for part in more:
                append_replaced(part)

        parts.append, parts.extend = append_replaced, extend_replaced

    @property
    def _replacements(self):
        """Pairs of an old layer and a new one."""
        # Not in a list: the old layers must not become parts of the block.
        hidden = types.SimpleNamespace(pairs=[])
        return vars(self).setdefault("_replaced_layers", hidden).pairs

    def _replaced(self, path, value):
        if isinstance(value, keras.Layer):
            return self._counterpart(path, value)
        if isinstance(value, dict):
            items = list(value.items())
        elif isinstance(value, (list, tuple)):
            items = list(enumerate(value))
        else:
            return value
        parts = {k: self._replaced(f"{path}/{k}", x) for k, x in items}
        if all(parts[k] is x for k, x in items):
            return value
        return type(value)(parts if isinstance(value, dict) else parts.values())

    def _counterpart(self, path, layer):
        for old, new in self._replacements:
            if old is layer:
                return new
        if path not in self._plan or isinstance(layer, BinaryBlock):
            return layer
        if is_binary(layer):
            return layer  # From a config that holds the layer itself.
        new = _replacement(layer, self._plan[path])
        self._replacements.append((layer, new))
        return new

    @classmethod
    def from_config(cls, config):
        node = config["block"]
        made = _block_class(_class_of(node), json.dumps(config["plan"]))
        create = super(BinaryBlock, made).from_config
        try:
            block = create(dict(node["config"]))
        except TypeError:
            block = create(known_arguments(made, node["config"]))
        if not _has_own_config(made._base):
            # Keras knows the arguments only of a class without `get_config`.
            kept = types.SimpleNamespace(config=node["config"])
            object.__setattr__(block, "_given", kept)
        return block

    def get_config(self):
        if _has_own_config(self._base):
            config = super().get_config()
        else:
            config = {**self._given.config, "trainable": self.trainable}
        node = {"config": config}
        use_class(node, self._base)
        return {"block": node, "plan": self._plan}

    def get_build_config(self):
        # Keras would call it built, but only a call builds what is inside.
        if self._base.build is keras.Layer.build:
            return None
        return super().get_build_config()


register = keras.saving.register_keras_serializable(PACKAGE, "BinaryBlock")
register(BinaryBlock)


@functools.cache
def _block_class(base, plan):
    """The class of blocks that extends `base`; the plan is in JSON."""
    names = {"_base": base, "_plan": json.loads(plan)}
    names["__module__"] = base.__module__
    made = type(f"Binary{base.__name__}", (BinaryBlock, base), names)
    # All have one name in files: `from_config` does not depend on the class.
    register(made)
    register(BinaryBlock)
    return made


def _class_of(node):
    """The class of a serialized layer."""
    cls = keras.saving.get_registered_object(node["registered_name"])
    if cls is None:
        # A file must not decide which modules are imported.
        module = sys.modules.get(node["module"])
        cls = getattr(module, node["class_name"], None)
    if not (isinstance(cls, type) and issubclass(cls, keras.Layer)):
        raise ValueError(
            f"The class '{node['class_name']}' of a custom layer is unknown. "
            f"Import the module that defines it, '{node['module']}', before "
            "you load the model, or pass the class in `custom_objects`. "
            f"Received: {node['registered_name']}"
        )
    return cls


def change_config(node: dict, change: dict) -> dict:
    """The serialized form of what replaces a layer, from that of the layer."""
    if "plan" not in change:
        convert_config(node, change["options"], change["limit"])
        return node
    block = {k: v for k, v in node.items() if k != "build_config"}
    new = {**node, "config": {"block": block, "plan": change["plan"]}}
    use_class(new, BinaryBlock)
    return new


def problem_of(plan: dict, call) -> str | None:
    """Why a custom layer cannot become a block; `None` if it can."""
    try:
        with unchanged_seeds():
            _try_block(plan, call)
    except Exception as error:
        # It is the user's class, which may raise anything. Keras embeds
        # the error in a longer message, in bold.
        text = re.split(r"\x1b\[1m|ncountered:", str(error))[-1]
        text = text.partition("\x1b")[0]
        return (
            "cannot be rebuilt with binary layers inside: "
            f"{type(error).__name__}: {shorten(text, 200, placeholder=' …')}"
        )
    return None


def _try_block(plan, call):
    """Raises an error if a custom layer is not the same as a block."""
    layer, (args, kwargs) = call.layer, call.arguments
    block = _recreate(layer, {"plan": plan})
    block(*args, **kwargs)
    assign_latents(layer, block)
    parts = [x for x in with_inner_layers(block) if isinstance(x, BinaryBlock)]
    replaced = [new for part in parts for _, new in part._replacements]
    if sum(not isinstance(x, BinaryBlock) for x in replaced) != _count(plan):
        raise ValueError("it creates other layers")
    weights = weights_of(block.weights)
    with full_precision(weights):
        if not computes_the_same(layer, block, call):
            raise ValueError(
                "rebuilt from its config, it computes something else"
            )
    # A layer inside that is called only sees the signs of its weights.
    before = outputs(block, call)
    for weight in weights:
        weight.latent.assign(weight.value())
    if not same(layer, before, outputs(block, call)):
        raise ValueError("it reads the weights of a layer inside it directly")


def _count(plan):
    inner = [change["plan"] for change in plan.values() if "plan" in change]
    return len(plan) - len(inner) + sum(map(_count, inner))


def attribute_layers(layer: keras.Layer) -> dict[str, keras.Layer]:
    """The layers that are attributes of a layer, by their keys in a plan."""
    found, seen = {}, set()

    def visit(path, value):
        if isinstance(value, keras.Layer):
            if id(value) not in seen:
                seen.add(id(value))
                found[path] = value
        elif isinstance(value, dict):
            for key, part in value.items():
                visit(f"{path}/{key}", part)
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value):
                visit(f"{path}/{number}", part)

    for name, value in backend.attributes(layer).items():
        if name not in _internal_names():
            visit(name, value)
    return found


def _replacement(layer, change):
    """What replaces a layer that a block has just created."""
    plan = change.get("plan")
    names = {key.partition("/")[0] for key in plan or ()}
    if plan and not layer.built and names.isdisjoint(backend.attributes(layer)):
        # It creates its layers in `build`, so it need not be created again.
        # Its config may not even exist.
        layer.__class__ = _block_class(type(layer), json.dumps(plan))
        return layer
    return _recreate(layer, change)


def _recreate(layer, change):
    serializer = Serializer()
    config = serializer.serialize(layer)
    return serializer.deserialize(change_config(config, change))


def _has_own_config(cls):
    own = [base for base in cls.__mro__ if not is_keras_class(base)]
    return any("get_config" in vars(base) for base in own)


@functools.cache
def _internal_names():
    """The attributes that Keras or its backend adds to a layer."""
    names = set()
    for layer in (keras.Layer(), keras.Model()):
        layer.part = keras.Layer()  # It is also in lists of the backend.
        names |= set(backend.attributes(layer))
    return names - {"part"}
