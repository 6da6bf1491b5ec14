"""Which transformations a binary weight goes through, in each format."""

import pytest

from tests.tflite_export.support import exported, exported_signs
from tflite_export import Format
from tflite_export.find import find_binary_constants
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.plan import plan
from tflite_export.prepare import trained_kernels
from tflite_export.transformations import registry


def steps(model, format):
    flat = FlatModel(model.converted)
    constants = find_binary_constants(flat, trained_kernels(model.model))
    return [
        " ".join(step.__name__.split(".")[-1] for step in placement.steps)
        for placement in plan(flat, constants, Format(format))
    ]


@pytest.mark.parametrize(
    ("make", "case", "format", "expected"),
    [
        (exported, "dense", "packed", "int8_arithmetic store_packed_bits"),
        (exported, "dense", "packed_float", "store_packed_bits"),
        (exported, "dense", "fast", "int8_arithmetic store_int4_or_int8"),
        (
            exported,
            "dense_per_channel",
            "packed",
            "int8_arithmetic scale_rows store_packed_bits",
        ),
        (
            exported,
            "rows_per_channel",
            "packed",
            "scale_rows dense_as_matmul store_packed_bits",
        ),
        (exported, "conv2d", "packed", "conv_as_matmul store_packed_bits"),
        (exported, "winograd", "packed", "conv_as_winograd"),
        (
            exported,
            "winograd",
            "packed_float",
            "conv_as_matmul store_packed_bits",
        ),
        (exported, "winograd", "fast", "int8_arithmetic store_int4_or_int8"),
        (exported, "conv2d_groups", "packed", "store_packed_bits"),
        (exported, "conv3d", "fast", "store_int4_or_int8"),
        (exported, "depthwise", "packed", "int8_arithmetic store_packed_bits"),
        (
            exported_signs,
            "dense",
            "packed",
            "int8_arithmetic sign_inputs store_packed_bits",
        ),
        (
            exported_signs,
            "conv2d_same",
            "fast",
            "int8_arithmetic sign_inputs store_int4_or_int8",
        ),
        (
            exported_signs,
            "conv2d_same",
            "packed",
            "conv_as_matmul store_packed_bits",
        ),
    ],
)
def test_each_weight_gets_the_steps_of_its_format(make, case, format, expected):
    assert steps(make(case), format) == [expected]


def test_a_plan_does_not_change_the_model():
    model = exported("dense")
    flat = FlatModel(model.converted)
    before = flat.to_bytes()
    kernels = trained_kernels(model.model)
    plan(flat, find_binary_constants(flat, kernels), Format.PACKED)
    assert flat.to_bytes() == before


def test_the_registry_has_every_transformation_once():
    listed = [
        *registry.REPAIRS,
        *registry.PREPARATIONS,
        *registry.TRANSFORMATIONS,
    ]
    assert len(set(listed)) == len(listed)
    for step in listed:
        assert callable(step.can_apply) and callable(step.apply)
