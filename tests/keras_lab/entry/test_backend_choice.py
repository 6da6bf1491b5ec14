"""The backend that the command `keras-lab` chooses."""

import importlib.util
import os

import pytest
from keras_lab_command.backend_choice import choose_backend

import keras_lab
from tests.keras_lab.interpreter import run
from tests.keras_lab.support import sequential

NAMES = ("tensorflow", "jax", "torch")


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Runs `choose_backend` where some backends are installed."""

    def choose(installed, configured=None, named=""):
        monkeypatch.setenv("KERAS_HOME", str(tmp_path))
        monkeypatch.setenv("KERAS_BACKEND", named)
        if configured is not None:
            (tmp_path / "keras.json").write_text(configured)
        monkeypatch.setattr(
            importlib.util, "find_spec", {k: k for k in installed}.get
        )
        choose_backend()
        return os.environ["KERAS_BACKEND"]

    return choose


@pytest.mark.parametrize(
    "configured", [None, "", "[]", '{"backend": "tensorflow"}']
)
def test_without_tensorflow_an_installed_backend_is_chosen(configured, chosen):
    assert chosen(["jax", "torch"], configured) == "jax"


def test_a_backend_that_the_user_has_chosen_stays(chosen):
    assert chosen(["torch"], named="jax") == "jax"
    assert chosen(["torch"], '{"backend": "jax"}') == ""
    assert chosen([]) == ""


def test_inspect_runs_on_an_installed_backend(tmp_path):
    model = sequential((3,), keras_lab.BinaryDense(2))
    model.save(tmp_path / "model.keras")
    printed = run(
        f"""
        import os, sys
        os.environ.pop("KERAS_BACKEND", None)
        import keras_lab_command
        file = {str(tmp_path / "model.keras")!r}
        sys.argv = ["keras-lab", "inspect", file, "--no-export"]
        print(keras_lab_command.main())
        import keras
        print(keras.config.backend())
        """,
        KERAS_HOME=str(tmp_path),
    )
    first = next(name for name in NAMES if importlib.util.find_spec(name))
    assert "(BinaryDense)" in printed and printed[-2:] == ["0", first]


def test_a_backend_that_is_not_installed_is_named(tmp_path):
    (tmp_path / "model.keras").touch()
    printed = run(
        f"""
        import sys
        sys.modules["torch"] = None
        import keras_lab_command
        sys.stderr = sys.stdout
        sys.argv = ["keras-lab", "inspect", {str(tmp_path / "model.keras")!r}]
        print(keras_lab_command.main())
        """,
        KERAS_BACKEND="torch",
    )
    text = " ".join(printed)
    assert "the backend of Keras, torch, is not installed" in text
    assert "KERAS_BACKEND" in text and text.endswith(' "keras_lab[torch]" 1')
