"""Settings that you make before the first operation runs."""

import os
import warnings

__all__ = ["keep_memory"]


def keep_memory():
    """Makes TensorFlow reuse the memory of a training step on a CPU.

    A training step needs large blocks of memory, for example for the binary
    kernels. The system's allocator may return them after each step and fetch
    them again for the next one, which can cost a quarter of the time of a
    compiled step. After this call TensorFlow uses its own allocator, which
    keeps them; the process then holds on to the most memory that it ever used.

    Call it before the first operation: TensorFlow chooses its allocator only
    once. If it is too late, there is a warning and no effect. Environment
    variables that are already set stay as they are.

    Example:

    >>> import keras_lab
    >>> keras_lab.config.keep_memory()
    """
    if "TF_CPU_ALLOCATOR_USE_BFC" in os.environ:
        return
    if _has_started():
        warnings.warn(
            "`keep_memory()` has no effect: TensorFlow has already run an "
            "operation. Call it right after `import keras_lab`.",
            stacklevel=2,
        )
        return
    os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
    if hasattr(os, "sysconf"):
        # The allocator's own limit is 64 GB.
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit = max(memory >> 20, 1 << 16)
        os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(limit))


def _has_started():
    """Whether TensorFlow has run an operation in this process."""
    import tensorflow as tf

    # Once it has, the number of threads cannot be changed any more.
    threads = tf.config.threading.get_inter_op_parallelism_threads()
    try:
        tf.config.threading.set_inter_op_parallelism_threads(threads + 1)
    except RuntimeError:
        return True
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return False
