"""Callbacks: what a network does while it trains, and its best file."""

from keras_lab.callbacks.export_best import ExportBest
from keras_lab.callbacks.monitor import BinaryMonitor

__all__ = ["BinaryMonitor", "ExportBest"]
