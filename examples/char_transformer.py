"""A character transformer: trained in float, then made binary and fine-tuned.

    python examples/char_transformer.py --epochs 10 --tune-epochs 5
    python examples/char_transformer.py --quick
    python examples/char_transformer.py --report results/char_transformer

A decoder of causal attention and dense blocks with a softmax over the next
byte, about 1.2 million weights. The text is War and Peace, unless `--text`
names a file. The float network is trained once per seed. `keras_lab.fine_tune`
then makes it binary with each scheme, all but the embeddings and the last
layer. Prints the cross-entropy in nats at each stage, exports the result in
every format and writes a JSON file. An interrupted run continues after its last
whole epoch when you give the same command again.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

import keras_lab
import tflite_export
from examples.environment import environment, origin, write_json
from examples.pages import markdown_table, mean_and_spread, show_table
from examples.paper import data as datasets
from examples.text_options import load_text, make_parser

SCHEMES = ("lab", "bwn")
STAGES = ("float", "binarized", "fine-tuned")
FORMATS = ("float", "packed_float", "packed", "fast")
QUICK = {"width": 16, "blocks": 1, "heads": 2, "steps": 16, "batch": 8,
         "epochs": 1, "tune_epochs": 1, "bytes": 20000}  # fmt: skip


@keras.saving.register_keras_serializable(package="char_transformer")
class Positions(keras.layers.Layer):
    """Adds a trained vector to each position."""

    def build(self, shape):
        self.vectors = self.add_weight(
            shape=shape[1:], initializer="uniform", name="vectors"
        )

    def call(self, inputs):
        return inputs + self.vectors


def character_transformer(
    characters: int, steps: int, width: int, blocks: int, heads: int
) -> keras.Model:
    """Builds the float network: bytes in, logits of the next byte out."""
    inputs = keras.Input((steps,), dtype="uint8")
    x = keras.layers.Embedding(characters, width)(inputs)
    x = Positions()(x)
    for _ in range(blocks):
        y = keras.layers.LayerNormalization()(x)
        y = keras.layers.MultiHeadAttention(heads, width // heads)(
            y, y, use_causal_mask=True
        )
        x = keras.layers.Add()([x, y])
        y = keras.layers.LayerNormalization()(x)
        y = keras.layers.Dense(4 * width, activation="gelu")(y)
        x = keras.layers.Add()([x, keras.layers.Dense(width)(y)])
    x = keras.layers.LayerNormalization()(x)
    return keras.Model(inputs, keras.layers.Dense(characters)(x))


def train_float(data, options, seed) -> keras.Model:
    """The float network of a seed, from its file if there is one."""
    path = options.output / f"float-{seed}.keras"
    if path.exists():
        return keras.models.load_model(path)
    keras.utils.set_random_seed(seed)
    sizes = options.steps, options.width, options.blocks, options.heads
    model = character_transformer(data.classes, *sizes)
    print(f"{model.count_params():,} weights")
    steps = -(-len(data.train.x) // options.batch) * options.epochs
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=options.learning_rate,
        warmup_steps=min(200, steps // 10),
    )  # fmt: skip
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(
        *data.train,
        batch_size=options.batch,
        epochs=options.epochs,
        validation_data=data.validation,
        validation_batch_size=options.batch,
        verbose=2,
        callbacks=[backup(options, f"float-{seed}")],
    )
    model.save(path)
    return model


def tune(trained, data, options, scheme, seed) -> dict:
    """Makes the network binary; returns the numbers of each stage."""
    keras.utils.set_random_seed(seed)
    binary, report = keras_lab.binarize_model(
        trained, scheme, return_report=True
    )
    model, history = keras_lab.fine_tune(
        trained,
        data.train,
        validation_data=data.validation,
        epochs=options.tune_epochs,
        binary=binary,
        learning_rate=options.learning_rate,
        batch_size=options.batch,
        callbacks=[backup(options, f"{scheme}-{seed}")],
        verbose=2,
    )
    model.save(options.output / f"{scheme}-{seed}.keras")
    return {
        "validation_nats": {k: v["loss"] for k, v in history.stages.items()},
        "test_nats": {
            "float": nats(trained, data.test, options.batch),
            "fine-tuned": nats(model, data.test, options.batch),
        },
        "history": history.history,
        "converted": report.converted,
        "files": export(model, data.test, options, f"{scheme}-{seed}"),
    }


def export(model, test, options, name) -> dict:
    """Writes and runs a file in each format; returns sizes and nats."""
    results, x = {}, test.x[:32]
    expected = nats(model, datasets.Part(x, test.y[:32]), options.batch)
    for format in FORMATS:
        path = options.output / f"{name}-{format}.tflite"
        report = tflite_export.export_tflite(
            model, path, format, batch_size=1, validation_data=x[:8]
        )
        (logits,) = tflite_export.run(path, x).values()
        results[format] = {
            "bytes": report.file_bytes,
            "container_bytes": len(tflite_export.shrink(path.read_bytes())),
            "nats": cross_entropy(logits, test.y[:32]),
            "nats_of_keras": expected,
            "not_packed": list(report.not_packed),
        }
    return results


def nats(model, part, batch) -> float:
    return cross_entropy(model.predict(part.x, batch, verbose=0), part.y)


def cross_entropy(logits, y) -> float:
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, dtype="float64"
    )
    return float(loss(y, logits))


def backup(options, name):
    folder = options.output / f"{name}.backup"
    return keras.callbacks.BackupAndRestore(folder, delete_checkpoint=True)


def report(folder: Path) -> None:
    """Prints the tables of a folder, and puts them into its page, if any."""
    read = [json.loads(p.read_text()) for p in sorted(folder.glob("*-*.json"))]
    stages, files = [], []
    for scheme in SCHEMES:
        runs = [run for run in read if run["scheme"] == scheme]
        if not runs:
            continue
        columns = (
            *(("validation_nats", stage) for stage in STAGES),
            *(("test_nats", stage) for stage in (STAGES[0], STAGES[-1])),
        )
        nats = [
            mean_and_spread([run[part][stage] for run in runs], 3)
            for part, stage in columns
        ]
        stages.append([scheme.upper(), len(runs), *nats])
        for format in FORMATS:
            found = [run["files"][format] for run in runs]
            off = max(abs(f["nats"] - f["nats_of_keras"]) for f in found)
            sizes = [
                f"{found[0][key] / 1000:,.0f} kB"
                for key in ("bytes", "container_bytes")
            ]
            files.append(
                [scheme.upper(), f'`"{format}"`', *sizes, f"{off:.4f}"]
            )
    heads = (*STAGES, "float, test", "fine-tuned, test")
    tables = (
        markdown_table(("scheme", "runs", *heads), stages),
        markdown_table(
            ("scheme", "format", "file", "container", "nats off Keras"), files
        ),
        origin(run["environment"] for run in read),
    )
    show_table(folder, "\n\n".join(tables))


def parse(argv=None):
    parser = make_parser(__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--report", type=Path, help="only the tables of a folder of results")
    add("--scheme", nargs="+", choices=SCHEMES, default=SCHEMES)
    add("--seed", nargs="+", type=int, default=[1])
    add("--width", type=int, default=160)
    add("--blocks", type=int, default=4)
    add("--heads", type=int, default=4)
    add("--steps", type=int, default=100, help="bytes per sequence")
    add("--batch", type=int, default=25, help="sequences per step")
    add("--epochs", type=int, default=10, help="of the float network")
    add("--tune-epochs", type=int, default=5, help="of each binary network")
    add("--bytes", type=int, help="use only this many, from the start")
    add("--learning-rate", type=float, default=0.001)
    add("--output", type=Path, default=Path("char_transformer"))
    add("--quick", action="store_true", help="a tiny network, to try it out")
    options = parser.parse_args(argv)
    if options.quick:
        vars(options).update(QUICK)
    return options


def main(argv=None):
    options = parse(argv)
    if options.report:
        report(options.report)
        return
    keras_lab.config.keep_memory()
    try:
        data = load_text(options, options.steps, options.batch, options.bytes)
    except datasets.DataError as error:
        sys.exit(f"error: {error}")
    options.output.mkdir(parents=True, exist_ok=True)
    settings = {
        k: v for k, v in vars(options).items() if k not in ("output", "report")
    }
    for seed in options.seed:
        trained = train_float(data, options, seed)
        for scheme in options.scheme:
            path = options.output / f"{scheme}-{seed}.json"
            if path.exists():
                print(f"{path} is finished.")
                continue
            result = tune(trained, data, options, scheme, seed)
            write_json(
                path,
                {
                    "scheme": scheme,
                    "seed": seed,
                    "parameters": trained.count_params(),
                    "configuration": {**settings, "data": data.files},
                    "environment": environment(),
                    **result,
                },
            )
    report(options.output)


if __name__ == "__main__":
    main()
