"""A convolution as a matrix product, for unpacked weights.

The runtime's own convolution is slow with computed weights. XNNPACK, which runs
all the rest, takes only constants as weights of a convolution, but it can
multiply any two float matrices. So the patches of the image are laid side by
side, tap by tap, and multiplied.
"""

import dataclasses
import math

from tflite_export.graph.replacement import Replacement, can_be_matmul
from tflite_export.graph.weight_site import WeightSite


def can_apply(site: WeightSite) -> bool:
    """Whether convolutions of unpacked weights have a known size, one group."""
    return site.format.is_packed and site.every_user(can_be_matmul)


def apply(site: WeightSite) -> None:
    """Replaces the convolutions; the weights become a matrix."""
    weight = site.stored
    # [channels, taps · inputs], in the order of the kernel.
    matrix = weight.signs.reshape(len(weight.signs), -1)
    site.stored = dataclasses.replace(weight, signs=matrix, to_keras=(1, 0))
    for user in site.users:
        _replace(Replacement(site.model, site.subgraph, user))


def _replace(new):
    _, height, width, channels = new.shape(new.output)
    size = new.batch * height * width
    taps = math.prod(new.shape(new.weights)[1:])
    data = new.pad(new.data, new.padding(0), new.padding(1))
    # Columns first: then each row of the result is used several times.
    patches = new.taps(new.taps(data, axis=1), axis=0)
    matrix = new.reshape(patches, (size, taps))
    # The runtime copies the second matrix at each inference: the smaller one.
    if height * width < channels:
        product = new.weights_times_rows(matrix, size, channels)
    else:
        product = new.add(
            "BATCH_MATMUL", [matrix, new.weights], (size, channels), adjY=True
        )
    new.finish(new.reshape(product, (new.batch, height, width, channels)))
