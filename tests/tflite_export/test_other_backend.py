"""The export of a model that Keras runs on JAX or torch."""

import keras

import keras_lab
from tests.keras_lab.engine import each_other_backend
from tests.keras_lab.interpreter import run
from tests.keras_lab.support import sequential
from tflite_export import export_tflite


@each_other_backend
def test_the_file_is_the_one_that_tensorflow_writes(other, tmp_path):
    model = sequential((6,), keras_lab.BinaryDense(5), keras.layers.ReLU())
    model.save(tmp_path / "model.keras")
    export_tflite(model, tmp_path / "ours.tflite")
    printed = run(
        f"""
        import os
        import keras
        from keras_lab_command import main
        from tflite_export import export_tflite

        os.chdir({str(tmp_path)!r})
        print(main(["export", "model.keras", "theirs.tflite"]))
        print(keras.config.backend())

        class Custom(keras.layers.ReLU):
            pass

        model = keras.models.load_model("model.keras")
        model.add(Custom())
        try:
            export_tflite(model, "custom.tflite")
        except ValueError as error:
            print(error)
        """,
        KERAS_BACKEND=other,
    )
    text = " ".join(printed)
    assert "agreement" in text and f" 0 {other} " in text
    assert "knows only the classes of Keras and keras_lab" in text
    ours, theirs = (tmp_path / f"{who}.tflite" for who in ("ours", "theirs"))
    assert ours.read_bytes() == theirs.read_bytes()
