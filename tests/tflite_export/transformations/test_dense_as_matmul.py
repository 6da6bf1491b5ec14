"""Dense layers on many rows as one product of matrices."""

import keras
import pytest

from tests.tflite_export.models import (
    CASES,
    inputs,
    one_sample,
    part,
    sequential,
)
from tests.tflite_export.support import (
    Exported,
    exported,
    max_error,
    names_of,
    randomize,
)
from tflite_export import export_tflite, make_interpreter, run


@pytest.mark.parametrize("case", [c for c in CASES if c.startswith("rows")])
@pytest.mark.parametrize("format", ["packed", "packed_float"])
def test_many_rows_are_one_exact_product(case, format):
    model = exported(case)
    content = model.content(format)
    assert names_of(content).count("BATCH_MATMUL") == 1
    assert "FULLY_CONNECTED" not in names_of(content)
    for size in (1, 7):
        data = model.inputs(size)
        error = max_error(model.expected(data), run(content, data))
        # In int8 it would be 10⁻³.
        assert error < 1e-5


@pytest.mark.parametrize("format", ["fast", "float"])
def test_constants_stay_a_dense_layer(format):
    assert "BATCH_MATMUL" not in names_of(exported("rows").content(format))


@pytest.mark.parametrize(
    ("format", "rows"), [("packed", 15), ("packed_float", 1)]
)
def test_few_rows_stay_a_dense_layer(format, rows):
    model = sequential(one_sample(rows, 7), part("BinaryDense", 5))
    content = Exported(randomize(model())).content(format)
    assert names_of(content).count("FULLY_CONNECTED") == 1


def test_signs_stay_integers():
    model = sequential(
        one_sample(20, 8), part("BinaryDense", 5, input_quantizer="sign")
    )
    content = Exported(randomize(model())).content("packed")
    assert names_of(content).count("FULLY_CONNECTED") == 1


def test_a_fixed_batch_size_is_as_many_rows(tmp_path, rng):
    model = randomize(sequential(inputs(24), part("BinaryDense", 6))())
    data = rng.normal(size=(32, 24)).astype("float32")
    path = tmp_path / "m.tflite"
    export_tflite(model, path, batch_size=32, validation_data=data)
    assert "BATCH_MATMUL" in names_of(path.read_bytes())


def test_an_open_length_is_left_to_the_runtime():
    model = sequential(
        lambda: keras.Input((None, 3, 20)), part("BinaryDense", 6)
    )
    content = Exported(randomize(model())).content("packed")
    assert "BATCH_MATMUL" not in names_of(content)


def test_the_input_products_of_a_recurrent_layer_are_rows():
    model = sequential(inputs(16, 12), part("BinaryLSTM", 8))
    model = Exported(randomize(model()))
    content = model.content("packed")
    assert names_of(content).count("BATCH_MATMUL") == 1
    data = model.inputs(1)
    error = max_error(model.expected(data), run(content, data))
    assert error < 0.02


def test_xnnpack_gets_all_that_runs_at_an_inference():
    interpreter = make_interpreter(exported("rows").content("packed"))
    interpreter.allocate_tensors()
    found = [o["op_name"] for o in interpreter._get_ops_details()]
    assert found.count("DELEGATE") == 1
