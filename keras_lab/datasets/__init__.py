"""The paper's data sets, read from their original files.

Each function takes the data folder (or finds it, see `data_folder`), downloads
what is missing, and returns a `Dataset` with the paper's three parts and
preprocessing.

>>> data = keras_lab.datasets.mnist("my_data")
>>> data.train.x.shape, data.validation.x.shape, data.test.x.shape
((50000, 784), (10000, 784), (10000, 784))
"""

from keras_lab.datasets.dataset import Dataset, Part
from keras_lab.datasets.files import DataError, data_folder
from keras_lab.datasets.images import cifar10, mnist, svhn
from keras_lab.datasets.text import linux_kernel, text_file, war_and_peace

__all__ = [
    "DataError",
    "Dataset",
    "Part",
    "cifar10",
    "data_folder",
    "linux_kernel",
    "mnist",
    "svhn",
    "text_file",
    "war_and_peace",
]
