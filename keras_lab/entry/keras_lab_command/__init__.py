"""The command `keras-lab`, in a package of its own.

`import keras_lab` imports Keras, which takes seconds. So the command begins
here, where its help is found without either.
"""

from keras_lab_command.cli import main

__all__ = ["main"]
