"""The examples of recurrent networks, on a small text."""

import json

import keras
import numpy as np
import pytest

import keras_lab
from examples import char_lstm, exploding_gradients


@pytest.fixture
def text(tmp_path, rng):
    path = tmp_path / "text.txt"
    words = rng.choice([b"one ", b"two ", b"three\n"], 24_000)
    path.write_bytes(b"".join(words.tolist()))
    return str(path)


@pytest.mark.slow
def test_the_character_model_learns_and_goes_on_byte_by_byte(text, tmp_path):
    folder = tmp_path / "out"
    char_lstm.main(
        f"--text {text} --cells 16 --steps 10 --epochs 3 --batch 20 "
        "--bytes 30000 --learning-rate 0.02 --sample 30 "
        f"--output {folder}".split()
    )
    result = json.loads((folder / "lab-1.json").read_text())
    assert result["epochs_done"] == len(result["history"]["val_loss"]) == 3
    # A guess among the 11 letters is worth 2.4 nats.
    assert result["history"]["val_loss"][-1] < 1.5
    assert result["stream_error"] < 0.01
    assert len(result["sample"]) == 30 and set(result["sample"]) <= set(
        "one two three\n"
    )
    model = keras.models.load_model(folder / "lab-1.keras")
    assert model.get_layer("lstm").cell.alpha.shape == (4,)


def test_a_jacobian_is_that_of_finite_differences(rng):
    lstm = keras.Sequential(
        [
            keras.Input((None, 1), dtype="uint8"),
            keras_lab.BinaryLSTM(
                3, one_hot=5, return_sequences=True, dtype="float64"
            ),
        ]
    ).layers[0]
    sequence = rng.integers(0, 5, 6).astype(np.uint8)
    (norm,) = exploding_gradients.jacobian_norms(lstm, sequence, [5])
    zero = lstm.cell.get_initial_state(batch_size=1)
    h, c = (np.asarray(s) for s in lstm.cell(sequence[None, :1], zero)[1])

    def h_5(h):
        out = lstm(sequence[None, 1:5, None], initial_state=[h, c])
        return np.asarray(out)[0, -1]

    step = 1e-6 * np.eye(3)
    jacobian = [(h_5(h + e) - h_5(h - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(norm, np.linalg.norm(jacobian), rtol=1e-5)


@pytest.mark.slow
def test_the_gradients_of_binary_connect_explode_and_those_of_lab_do_not(
    text, tmp_path, capsys
):
    output = tmp_path / "figure"
    exploding_gradients.main(
        f"--text {text} --cells 64 --updates 3 --output {output}".split()
    )
    rows = json.loads(output.with_suffix(".json").read_text())["rows"]
    rows = {(row["scheme"], row["steps"]): row for row in rows}
    assert len(rows) == 8 and output.with_suffix(".png").stat().st_size > 10_000
    for steps in exploding_gradients.STEPS:
        # Proposition 3.2.
        values = rows["binary_connect", steps]["largest_singular_values"]
        assert min(values) >= np.sqrt(64)
    assert rows["binary_connect", 100]["jacobian_norms"][-1] > 1e3
    assert rows["lab", 100]["jacobian_norms"][-1] < 1
    assert "λ₁" in capsys.readouterr().out
