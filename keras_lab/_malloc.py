"""The memory of a process, for backends that allocate with `malloc`."""

import ctypes

__all__ = ["keep_memory"]

# The parameters of `mallopt` in glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def keep_memory():
    """Keeps freed memory instead of giving it back to the system.

    Without it a step whose temporary arrays need more than 32 MB gets new pages
    from the system each time. Has no effect without glibc.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
