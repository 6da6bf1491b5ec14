"""ai-edge-quantizer: int4 and int2 weights, dynamic range."""

from pathlib import Path

from ai_edge_quantizer import qtyping, quantizer

from benchmarks.worker import Cannot

BITS = {"int4": 4, "int2": 2}


def export(format, path, **_):
    """Quantizes the weights of the float32 file in the same folder."""
    path = Path(path)
    source = path.with_name("tflite_float32.tflite")
    model = quantizer.Quantizer(str(source))
    model.add_dynamic_config(
        ".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=BITS[format]
    )
    model.quantize().export_model(str(path), overwrite=True)
    if path.stat().st_size > 0.9 * source.stat().st_size:
        raise Cannot("quantizes no kernel")
    return {}
