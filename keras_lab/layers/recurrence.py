"""The loop over time in training, with its gradient written out.

A step is zₜ = xₜ + hₜ₋₁·Û, where xₜ is the projected input, followed by the
gates, which make the new states of zₜ and the old ones. Going back in time,

    ∂ℓ/∂zₜ, ∂ℓ/∂cₜ₋₁ = the gradient of the gates,
    ∂ℓ/∂hₜ₋₁ = ∂ℓ/∂zₜ · Ûᵀ,
    ∂ℓ/∂xₜ = ∂ℓ/∂zₜ,
    ∂ℓ/∂Û = Σₜ hₜ₋₁ᵀ · ∂ℓ/∂zₜ.

The last one is one matrix product after the loop. Differentiating the loop
would add up a matrix of the size of Û in every step, and with XLA on TensorFlow
it would copy the gradient of all outputs in every step.
"""

from keras import ops

from keras_lab._backend import backend

__all__ = ["recurrence"]


def recurrence(cell, projected, kernel, states):
    """Runs a cell over time.

    Like the straight-through estimator, it has a first derivative only.

    Args:
        cell: A `BinaryCell`, which defines `update` and an `input_quantizer`.
        projected: The projected inputs, of shape `(time, batch, columns)`.
        kernel: The recurrent kernel Û.
        states: The list of initial states, with h first.

    Returns:
        The outputs of all steps, time first, and the list of final states.
    """

    def binary(h):
        return h if cell.input_quantizer is None else cell.input_quantizer(h)

    def run(projected, kernel, *first):
        def step(states, inputs):
            z = inputs[0] + ops.matmul(binary(states[0]), kernel)
            states = cell.update(z, states)
            return states, [z, *states]

        last, (z, *states) = backend.scan(
            step, first, [projected], like=[projected[0], *first]
        )

        def gradient(outputs, *last):
            before = [
                ops.concatenate([ops.expand_dims(start, 0), state[:-1]])
                for start, state in zip(first, states)
            ]
            # Faster than multiplying by a transposed view in each step.
            transposed = ops.transpose(kernel)

            def back(after, inputs):
                z, output, *before = inputs
                after = [after[0] + output, *after[1:]]
                dz, *after = backend.pull_back(cell.update, z, before, after)
                dh = ops.matmul(dz, transposed)
                if cell.input_quantizer is not None:
                    (dh,) = backend.pull_back(
                        lambda h, _: [binary(h)], before[0], [], [dh]
                    )
                return [after[0] + dh, *after[1:]], [dz]

            dfirst, (dz,) = backend.scan(
                back,
                last,
                [z, outputs, *before],
                like=[projected[0]],
                reverse=True,
            )
            dz, *dfirst = (_once(x, projected, kernel) for x in [dz, *dfirst])
            h = ops.reshape(binary(before[0]), (-1, kernel.shape[0]))
            flat = ops.reshape(dz, (-1, kernel.shape[1]))
            dkernel = ops.matmul(ops.transpose(h), flat)
            return dz, dkernel, *dfirst

        return (states[0], *last), gradient

    outputs, *last = backend.custom_gradient(run, projected, kernel, *states)
    return outputs, last


@ops.custom_gradient
def _once(x, *sources):
    """x; differentiating it raises NotImplementedError.

    On torch nothing else says that x depends on the sources.
    """

    def gradient(*args, upstream=None):
        raise NotImplementedError(
            "A binary recurrent layer has only first derivatives in training. "
            "Call it with `training=False` to differentiate twice. Received: "
            "training=True"
        )

    return x, gradient
