"""The paper's data sets, read from their original files.

Each function takes the data folder (see `data_folder`), downloads what is
missing, and returns a `Dataset` with the paper's three parts and preprocessing.

>>> data = examples.paper.data.mnist("my_data")
>>> data.train.x.shape, data.validation.x.shape, data.test.x.shape
((50000, 784), (10000, 784), (10000, 784))
"""
# ruff: noqa: F401

from examples.paper.data.files import DataError, Dataset, Part, data_folder
from examples.paper.data.images import cifar10, mnist, svhn
from examples.paper.data.text import linux_kernel, text_file, war_and_peace
