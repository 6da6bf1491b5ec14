"""Importing the package changes nothing else, and shows the public API."""

import keras

import keras_lab
from tests.keras_lab.interpreter import run


def test_importing_registers_the_classes_and_changes_nothing_else(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras_lab.BinaryDense(2)])
    model.save(tmp_path / "model.keras")
    printed = run(
        f"""
        import os
        import keras

        def state():
            classes = [keras.Layer, keras.Model, keras.Variable]
            classes += [keras.layers.RNN, keras.layers.LSTM]
            classes += [keras.optimizers.Adam]
            return dict(os.environ), [dict(vars(cls)) for cls in classes]

        before = state()
        import keras_lab
        print(state() == before)
        model = keras.models.load_model({str(tmp_path / "model.keras")!r})
        print(type(model.layers[0]).__name__)
        """
    )
    assert printed == ["True", "BinaryDense"]


def test_the_public_api_is_all_that_dir_shows():
    assert dir(keras_lab) == sorted(keras_lab.__all__)
    assert not hasattr(keras_lab, "Binary")
    assert all(hasattr(keras_lab, name) for name in keras_lab.__all__)
    assert dir(keras_lab.layers) == sorted(keras_lab.layers.__all__)
    assert set(keras_lab.layers.__all__) <= set(keras_lab.__all__)


def test_the_help_of_a_command_needs_neither_keras_nor_keras_lab():
    printed = run(
        """
        import contextlib, sys
        from keras_lab_command import main

        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(None):
            main(["export", "--help"])
        print("keras" in sys.modules, "keras_lab" in sys.modules)
        """
    )
    assert printed == ["False", "False"]
