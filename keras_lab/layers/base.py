"""What makes a Keras layer binary, the same for all layers.

`BinaryLayer` comes before a Keras layer in the list of base classes. When that
layer creates a kernel, the kernel becomes a latent weight and gets a scale α.
The binary layer's `call` then reads `binary_kernel` instead of `kernel`.
"""

import inspect

import keras
from keras import ops

from keras_lab._backend import backend
from keras_lab.binary_weight import BinaryWeight
from keras_lab.constraints import WeightClip
from keras_lab.quantizers import get_input_quantizer, get_kernel_quantizer

__all__ = ["BinaryLayer", "HasQuantizers"]


class HasQuantizers:
    """A mixin that gives a Keras layer the arguments for its quantizers.

    A subclass lists the arguments of Keras for the constraints of its kernels
    in `_constraints`. By default latent weights are clipped.
    """

    _constraints = ("kernel_constraint",)
    kernel_quantizer = None
    input_quantizer = None

    def __init__(
        self, *args, kernel_quantizer="lab", input_quantizer=None, **kwargs
    ):
        kernel_quantizer = get_kernel_quantizer(kernel_quantizer)
        input_quantizer = get_input_quantizer(input_quantizer)
        if kernel_quantizer is not None:
            given = inspect.signature(super().__init__)
            given = given.bind_partial(*args, **kwargs).arguments
            given = {**given, **given.get("kwargs", {})}
            for name in self._constraints:
                if name not in given:
                    kwargs[name] = WeightClip()
        super().__init__(*args, **kwargs)
        self.kernel_quantizer = kernel_quantizer
        self.input_quantizer = input_quantizer
        self._check_dtype_policy(self.dtype_policy)

    @property
    def dtype_policy(self):
        return super().dtype_policy

    @dtype_policy.setter
    def dtype_policy(self, policy):
        self._check_dtype_policy(keras.dtype_policies.get(policy))
        super(HasQuantizers, type(self)).dtype_policy.fset(self, policy)

    def _check_dtype_policy(self, policy):
        if self.kernel_quantizer is None and self.input_quantizer is None:
            return
        # Keras' quantized layers would read the latent weight.
        if policy.quantization_mode is not None:
            raise ValueError(
                f"Layer '{self.name}' is binary, so it cannot be quantized. "
                "Use a floating-point dtype policy such as 'float32' or "
                f"'mixed_bfloat16'. Received: dtype='{policy.name}'"
            )

    def get_config(self):
        quantizers = {
            name: keras.saving.serialize_keras_object(getattr(self, name))
            for name in ("kernel_quantizer", "input_quantizer")
        }
        return {**super().get_config(), **quantizers}


class BinaryLayer(HasQuantizers):
    """A mixin that binarizes the kernels of a Keras layer.

    A subclass lists its kernels in `_kernels`: the name that Keras gives each
    variable, and which of its axes are output channels.
    """

    _kernels = {"kernel": (-1,)}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._binary_weights = {}
        for name in self._kernels:
            setattr(self, _alpha_name(name), None)

    def add_weight(self, *args, name=None, **kwargs):
        is_latent = name in self._kernels and self.kernel_quantizer is not None
        if is_latent:
            # Not cast automatically: the sign is that of the latent weight, not
            # of a half-precision copy. All replicas hold and constrain the same
            # value, so that of the first one is enough.
            kwargs.update(autocast=False, aggregation="only_first_replica")
        if name in self._kernels:
            shape = tuple(kwargs.get("shape", args[0] if args else ()))
            if 0 in shape:
                raise ValueError(
                    f"Layer '{self.name}' cannot have an empty kernel. "
                    f"Received: {name} of shape {shape}"
                )
        # Keras may build the layer inside a function that is being compiled.
        with backend.init_scope():
            variable = super().add_weight(*args, name=name, **kwargs)
            if is_latent:
                self._add_binary_weight(name, variable)
        return variable

    def _add_binary_weight(self, name, latent):
        if not keras.backend.is_float_dtype(latent.dtype):
            raise ValueError(
                f"Layer '{self.name}' needs a floating-point latent weight. "
                f"Received: {name} of dtype {latent.dtype}"
            )
        shape, keep = self._scale_axes(name, tuple(latent.shape))
        alpha = _alpha_name(name)
        with keras.name_scope(self.name, caller=self):
            weight = BinaryWeight(
                latent, self.kernel_quantizer, shape, keep, alpha
            )
        self._binary_weights[name] = weight
        setattr(self, alpha, weight.alpha)

    def _scale_axes(self, name, shape):
        """The shape in which to see a kernel, and the axes of α in it."""
        if self.kernel_quantizer.scale == "tensor":
            return shape, ()
        keep = self._channel_axes(name, shape)
        if len(keep) == len(shape):
            raise ValueError(
                f"Layer '{self.name}' has only one weight per output channel, "
                "which a scale per channel would leave in full precision. Use "
                f"`scale='tensor'`. Received: {name} of shape {shape}"
            )
        return shape, keep

    def _channel_axes(self, name, shape):
        return sorted(axis % len(shape) for axis in self._kernels[name])

    @property
    def binary_weights(self):
        """The `BinaryWeight`s of the layer, by the latent weight's name."""
        return dict(self._binary_weights)

    @property
    def binary_kernel(self):
        """The kernel of the forward pass: ŵ = α·sign(w)."""
        return self._forward_weight("kernel")

    def _forward_weight(self, name, inputs=None):
        """ŵ in the dtype of the inputs, by default in the compute dtype."""
        if not self.built:
            raise ValueError(
                f"Layer '{self.name}' has no weights yet. Build it first. "
                f"Received: built={self.built}"
            )
        dtype = self.compute_dtype
        if inputs is not None:
            # They differ in a wrapper with another dtype policy.
            given = keras.backend.standardize_dtype(inputs.dtype)
            dtype = given if keras.backend.is_float_dtype(given) else dtype
        if name in self._binary_weights:
            return self._binary_weights[name].value(dtype)
        return ops.cast(getattr(self, name), dtype)

    def _forward_inputs(self, inputs):
        if self.input_quantizer is None:
            return inputs
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if not keras.backend.is_float_dtype(dtype):
            inputs = ops.cast(inputs, self.compute_dtype)
        return self.input_quantizer(inputs)

    def _bias_and_activation(self, outputs):
        if self.bias is not None:
            bias = self.bias
            if getattr(self, "data_format", None) == "channels_first":
                bias = ops.reshape(bias, (-1,) + (1,) * self.rank)
            outputs = ops.add(outputs, bias)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def enable_lora(self, *args, **kwargs):
        if self.kernel_quantizer is None:
            return super().enable_lora(*args, **kwargs)
        raise NotImplementedError(
            f"Layer '{self.name}' is binary, and the sum of its kernel and a "
            "low-rank matrix would not be. Received: a layer of type "
            f"{type(self).__name__}"
        )

    def quantize(self, mode=None, type_check=True, config=None):
        if self.kernel_quantizer is None and self.input_quantizer is None:
            # Keras refuses its own subclasses if it checks the type.
            return super().quantize(mode, type_check=False, config=config)
        raise NotImplementedError(
            f"Layer '{self.name}' is binary, so it cannot be quantized. "
            f"Received: mode='{mode}'"
        )

    # Keras' Dense and Conv save only the variables that they know.
    def save_own_variables(self, store):
        if self._saves_as_keras():
            return super().save_own_variables(store)
        scales = {
            weight.alpha.name: weight.scale_to_save()
            for weight in self._binary_weights.values()
        }
        for variable in self._own_variables():
            store[variable.name] = scales.get(variable.name, variable)

    def load_own_variables(self, store):
        if self._saves_as_keras():
            return super().load_own_variables(store)
        variables = {v.name: v for v in self._own_variables()}
        if set(store.keys()) != set(variables):
            raise ValueError(
                f"Layer '{self.name}' needs a file with the variables "
                f"{sorted(variables)}. A file has none for this layer if it "
                "holds another kind of layer in its place. "
                f"Received: a file with {sorted(store.keys())}"
            )
        for name, variable in variables.items():
            if tuple(store[name].shape) != tuple(variable.shape):
                raise ValueError(
                    f"Layer '{self.name}' needs the variable '{name}' of shape "
                    f"{tuple(variable.shape)}. The shape of a scale depends on "
                    "the quantizer's `scale`, 'tensor' or 'channel'. Received: "
                    f"a file with the shape {tuple(store[name].shape)}"
                )
        for weight in self._binary_weights.values():
            weight.is_uniform = False  # α is what was saved.
        # Each α comes after its latent weight.
        for name, variable in variables.items():
            variable.assign(store[name])

    def _saves_as_keras(self):
        # Its variables may be those of LoRA or of a quantization.
        return self.kernel_quantizer is None

    def _own_variables(self):
        names = [*self._kernels, "bias", *map(_alpha_name, self._kernels)]
        variables = [getattr(self, name, None) for name in names]
        return [variable for variable in variables if variable is not None]


def _alpha_name(kernel_name):
    if kernel_name == "embeddings":
        return "alpha"
    return kernel_name.replace("kernel", "alpha")
