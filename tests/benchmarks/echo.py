"""A worker for tests."""

import os
import signal

from benchmarks.worker import Cannot


def double(x):
    print("not an answer")
    os.system("echo not one either")
    return 2 * x


def refuse():
    raise Cannot("has no wings", "It was built without.")


def fail():
    raise TypeError("wrong")


def die():
    os.kill(os.getpid(), signal.SIGKILL)
