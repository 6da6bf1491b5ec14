"""`ConversionReport`: what `binarize_model` did with each layer."""

import dataclasses

__all__ = ["ConversionReport", "Row"]


@dataclasses.dataclass(frozen=True)
class Row:
    """What happened to a layer that has weights.

    Attributes:
        layer: Its path: its name after the names of the models around it.
        kind: Its class.
        weights: The number of its weights.
        skipped: Why it was kept as it is; `None` if it was converted.
    """

    layer: str
    kind: str
    weights: int
    skipped: str | None = None


class ConversionReport(tuple):
    """A `Row` for each layer that has weights. Prints as a table."""

    @property
    def converted(self):
        """The paths of the layers that were converted."""
        return [row.layer for row in self if row.skipped is None]

    def __str__(self):
        cells = [("layer", "type", "weights", "")] + [
            (
                row.layer,
                row.kind,
                f"{row.weights:,}",
                "converted" if row.skipped is None else f"kept: {row.skipped}",
            )
            for row in self
        ]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join(
            f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip()
            for a, b, c, d in cells
        )
