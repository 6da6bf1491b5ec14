"""The two examples of recurrent networks, on a small text."""

import json

import keras
import numpy as np
import pytest

from examples import char_lstm, char_stream, exploding_gradients


@pytest.fixture
def text(tmp_path, rng):
    path = tmp_path / "text.txt"
    words = rng.choice([b"one ", b"two ", b"three\n"], 24_000)
    path.write_bytes(b"".join(words.tolist()))
    return str(path)


def test_the_character_model_learns_writes_and_is_saved(text, tmp_path):
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
    assert len(result["sample"]) == 30 and set(result["sample"]) <= set(
        "one two three\n"
    )
    assert np.shape(result["alpha"]) == (2, 4)
    model = keras.models.load_model(folder / "lab-1.keras")
    assert model.get_layer("lstm").cell.alpha.shape == (4,)


def test_a_file_goes_on_byte_by_byte(text, tmp_path, capsys):
    arguments = f"--text {text} --cells 16 --epochs 1 --sample 20"
    output = ["--output", str(tmp_path / "stream.tflz")]
    assert char_stream.main([*arguments.split(), *output]) < 0.01
    assert "It goes on: " in capsys.readouterr().out


def test_all_seven_schemes_build_the_character_model():
    for scheme in char_lstm.SCHEMES.values():
        model = char_lstm.character_lstm(
            9, 4, scheme.kernel_quantizer, scheme.input_quantizer
        )
        assert model(np.zeros((2, 5), np.uint8)).shape == (2, 5, 9)
        weights = [w for w in model.weights if "alpha" not in w.name]
        sizes = {
            w.path.removeprefix("character_lstm/"): w.shape for w in weights
        }
        # The paper's formulas: 4 gates of (inputs + cells + 1) × cells.
        assert sizes["lstm/lstm_cell/kernel"] == (9, 16)
        assert sizes["lstm/lstm_cell/recurrent_kernel"] == (4, 16)
        assert np.abs(model.layers[1].cell.kernel).max() <= 0.08


def test_the_learning_rate_falls_by_two_percent_after_ten_epochs():
    rates = [char_lstm.learning_rate(epoch, 0.002) for epoch in range(13)]
    np.testing.assert_allclose(rates[:11], 0.002)
    np.testing.assert_allclose(rates[11:], [0.002 * 0.98, 0.002 * 0.98**2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "missing.txt"], "missing.txt"),
        (["--scheme", "lap"], "lap"),
    ],
)
def test_a_wrong_option_is_named(arguments, message, capsys):
    with pytest.raises(SystemExit):
        char_lstm.main(arguments)
    assert message in capsys.readouterr().err


def test_a_jacobian_is_that_of_finite_differences(rng):
    lstm = keras.Sequential(
        [
            keras.Input((None, 1), dtype="uint8"),
            char_lstm.keras_lab.BinaryLSTM(
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
