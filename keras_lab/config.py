"""Settings to make before the first operation runs."""

from keras_lab._backend import backend

__all__ = ["keep_memory"]


def keep_memory():
    """Makes the backend reuse the memory of a training step on a CPU.

    A training step needs large blocks of memory, for example for the binary
    kernels. The system's allocator may return them after each step and fetch
    them again for the next one, which can cost a quarter of the time of a
    compiled step. After this call TensorFlow uses its own allocator, which
    keeps them; for JAX and torch the system's allocator is told to keep them
    (on Linux with glibc). The process then holds on to the most memory that it
    ever used.

    Call it before the first operation: TensorFlow chooses its allocator only
    once. If it is too late, there is a warning and no effect. Environment
    variables that are already set stay as they are.

    Example:

    >>> import keras_lab
    >>> keras_lab.config.keep_memory()
    """
    backend.keep_memory()
