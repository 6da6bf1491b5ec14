"""Callbacks: what a network does while it trains, how, and its best file."""

from keras_lab.callbacks.export_best import ExportBest
from keras_lab.callbacks.monitor import BinaryMonitor
from keras_lab.callbacks.progressive import ProgressiveBinarization

__all__ = ["BinaryMonitor", "ExportBest", "ProgressiveBinarization"]
