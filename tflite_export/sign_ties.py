"""Ties: values before a sign that are zero up to rounding.

A sum of ±α is often zero, above all in a network that was not trained. Its
rounding error decides the sign, and runtimes add up in different orders.
Neither sign is wrong. So the model is run once more, with the signs that the
file has at the ties, and only there.
"""

import contextlib

import keras
import numpy as np

import keras_lab
from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.interpreter import inner_tensors

# A value is a tie if it is so small, relative to the largest one.
TIE = 1e-5
# The share of other signs that must be equal for two tensors to be the same.
LEAST_EQUAL = 0.99


class Ties:
    """Makes a rebuilt model take the signs of a file wherever there are ties.

    `count` is how many ties were met when the model was called in `broken`, and
    `values` how many values before a sign there were.
    """

    def __init__(self, content: bytes, inputs: dict):
        arguments = sign_arguments(content)
        tensors = inner_tensors(FlatModel(content), inputs, arguments)
        samples = len(next(iter(inputs.values())))
        self._tensors = [
            x.reshape(samples, -1)
            for x in tensors.values()
            if x.size % samples == 0
        ]
        self.count = self.values = self._first = 0

    @contextlib.contextmanager
    def broken(self, model: keras.Model):
        """Temporarily changes the signs of a model of plain Keras layers.

        The model must be called on all samples in their order.
        """
        operations = [
            operation
            for layer in (model, *keras_lab.walk(model).values())
            if isinstance(layer, keras.Model)
            for operation in getattr(layer, "operations", ())
        ]
        equals, signs = (
            [part for part in operations if type(part).__name__ == name]
            for name in ("Equal", "Sign")
        )
        compared = {id(x) for equal in equals for x in _inputs(equal)}
        # Another sign is not ours: that of 0 is 0.
        signs = [s for s in signs if compared & {*map(id, _inputs(s))}]
        for operation in equals:
            operation.call = self._equal
        for operation in signs:
            operation.call = self._sign
        try:
            yield
        finally:
            for operation in (*equals, *signs):
                del operation.call

    def next_batch(self, size: int) -> None:
        """Goes on to the samples after those of the last batch."""
        self._first += size

    def _sign(self, x):
        # This is the `sign` of `where(equal(x, 0), 1, sign(x))`.
        signs, ties = self._decide(np.asarray(x))
        self.values += signs.size
        self.count += int(ties.sum())
        return keras.ops.convert_to_tensor(signs)

    def _equal(self, x, zero):
        equal = keras.ops.equal(x, zero)
        if not np.isscalar(zero) or zero != 0:
            return equal
        signs, _ = self._decide(np.asarray(x))
        return keras.ops.logical_and(equal, signs > 0)

    def _decide(self, x):
        """The signs of x, at ties those of the file; and where the ties are."""
        own = np.where(x >= 0, 1, -1).astype(x.dtype)
        ties = np.abs(x) <= TIE * np.abs(x).max(initial=0)
        rows = slice(self._first, self._first + len(x))
        best, most = own, LEAST_EQUAL
        for tensor in self._tensors:
            part = tensor[rows]
            if part.size == x.size:
                other = np.where(part.reshape(x.shape) >= 0, 1, -1)
                equal = np.mean((other == own)[~ties]) if not ties.all() else 1
                if equal >= most:
                    best, most = np.where(ties, other, own), equal
        return best.astype(x.dtype), ties


def sign_arguments(content: bytes) -> list[int]:
    """The tensors of the main subgraph of which a sign is taken."""
    model = FlatModel(content)
    main, found = model.subgraphs[0], []
    for operator in main.operators:
        name, inputs = model.operator_name(operator), inputs_of(operator)
        if name == "GREATER_EQUAL":  # Zero or one: see `sign_inputs`.
            zero = model.constant(main.tensors[inputs[1]])
            if zero is None or np.any(zero):
                continue
        elif name != "SIGN":
            continue
        found.append(inputs[0])
    return found


def _inputs(operation):
    return keras.tree.flatten(operation.input)
