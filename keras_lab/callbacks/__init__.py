"""Callbacks that monitor, export, and binarize layer by layer."""

from keras_lab.callbacks.export_best import ExportBest
from keras_lab.callbacks.monitor import BinaryMonitor
from keras_lab.callbacks.progressive import ProgressiveBinarization

__all__ = ["BinaryMonitor", "ExportBest", "ProgressiveBinarization"]


def __dir__():
    return list(__all__)
