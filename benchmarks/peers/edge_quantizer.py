"""ai-edge-quantizer: int4 and int2 weights, dynamic range."""

from pathlib import Path

from ai_edge_quantizer import qtyping, quantizer

from benchmarks.worker import Cannot

PACKAGES = ("ai-edge-quantizer", "ai-edge-litert")
BITS = {"int4": 4, "int2": 2}


def export(format, source, folder):
    """Quantizes the weights of `source`, a float32 file."""
    model = quantizer.Quantizer(source)
    model.add_dynamic_config(
        ".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=BITS[format]
    )
    path = Path(folder) / f"{format}.tflite"
    model.quantize().export_model(str(path), overwrite=True)
    if path.stat().st_size > 0.9 * Path(source).stat().st_size:
        raise Cannot("quantizes no kernel")
    return {format: {"path": str(path)}}
