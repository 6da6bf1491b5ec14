"""A worker for tests."""

import os
import signal

from benchmarks.workers import Cannot, serve


def double(x):
    print("not an answer")
    os.system("echo not one either")
    return 2 * x


def refuse():
    raise Cannot("has no wings", "It was built without.")


def fail():
    raise TypeError("wrong")


def die():
    os._exit(3)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(double, refuse, fail, die, kill)
