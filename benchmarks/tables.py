"""What the tables share: how rows are found, and how numbers are shown."""

from benchmarks import harness
from examples.pages import markdown_table

# The methods of training, in the order of their rows.
TITLES = {
    "keras": "Keras float32",
    "tf_keras": "tf_keras float32",
    "lab": "**LAB**",
    "bwn": "BWN",
    "binary_connect": "BinaryConnect",
    "lab2": "LAB2 (binary inputs too)",
    "larq_weights": "larq, `ste_sign` weights",
    "larq": "larq, `ste_sign` weights and inputs",
    "qat": "tfmot, quantization-aware (int8)",
    "clusters": "tfmot, 2 clusters",
    "int8": "TFLite int8 of the float network",
    "sign": "sign(w)·mean\\|w\\| after training",
    "sign_calibrated": "the same, batch norm measured again",
}
NETWORKS = {
    "mnist": "MNIST network",
    "cifar10": "CIFAR-10 network",
    "svhn": "SVHN network",
    "lstm": "LSTM",
}
XLA = {True: "XLA", False: "no XLA"}


def grid(content, corner, lines, columns):
    """Returns a table of cells, each of them found by two keys.

    `lines` has the key of each line by its title, `columns` the key of each
    column and a function of the row that is found.
    """
    body = []
    for title, key in lines.items():
        line, reasons = [title], []
        for more, text in columns.values():
            row = find(content["rows"], **key, **more)
            missing = row is None or "cannot" in row
            # Each reason appears once per line.
            line.append(
                "–" if missing and row in reasons else cell_text(row, text)
            )
            reasons.append(row)
        body.append(line)
    return markdown_table([corner, *columns], body)


def lines_of(content, name):
    """A line for each value of a name."""
    return {row[name]: {name: row[name]} for row in content["rows"]}


def find(rows, **key):
    return next((r for r in rows if key.items() <= r.items()), None)


def cell_text(row, text):
    """What a function makes of a row, or the reason if it is missing."""
    if row is None:
        return "not run"
    return row["cannot"] if "cannot" in row else text(row)


def show_spread(found, digits=2):
    low, high = found["quartiles"]
    return f"{found['median']:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def show_ratio(row):
    return show_spread(row["ratio"])


def show_times(values, factor=1, digits=3):
    return show_spread(harness.quartiles([factor * v for v in values]), digits)


def megabytes(count):
    return f"{count / 1e6:.{2 if count < 1e8 else 0}f} MB"


def by_xla(name, values, order=(True, False)):
    """Columns of ratios: each value, by its title, with and without XLA."""
    return {
        f"{title}, {XLA[xla]}": ({name: value, "jit_compile": xla}, show_ratio)
        for title, value in values.items()
        for xla in order
    }


def methods(content):
    """The methods that a file has, in the order of `TITLES`."""
    return [m for m in TITLES if find(content["rows"], method=m)]
