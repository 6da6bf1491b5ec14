"""Names: of layers inside the names of a graph, and unique ones.

`convert` calls each layer in a name scope that is made of the layer's path and
ends in a dot. TensorFlow carries it into the names of the constants, where the
path can be read again.
"""

import re

# A scope, after which TensorFlow may have put a number.
SCOPE = re.compile(r"([^/;]+)\.(?:_\d+)?(?=[/;]|$)")


def scope_of(path: str) -> str:
    """The name scope of a layer, given its path in the model."""
    # TensorFlow allows few characters, and the dot separates layers.
    names = [
        re.sub(r"[^A-Za-z0-9_]", lambda c: f"-{ord(c[0]):x}-", name)
        for name in path.split("/")
    ]
    return ".".join(names) + "."


def layers_in(name: str) -> list[str]:
    """The paths of the layers that the name of an operation or constant has.

    An inner layer comes after the one around it.
    """
    return [
        "/".join(map(_unescaped, scope.split(".")))
        for scope in SCOPE.findall(name)
    ]


def readable(name: str) -> str:
    """The path of the innermost layer in a name, and what follows it."""
    layers, scopes = layers_in(name), list(SCOPE.finditer(name))
    if not layers:
        return name
    return layers[-1] + name[scopes[-1].end() :].split(";")[0]


def unique_names(names: list[str]) -> list[str]:
    """The names, with a number appended to those that occurred before."""
    unique = []
    for name in names:
        number, candidate = 0, name
        while candidate in unique or (number and candidate in names):
            number += 1
            candidate = f"{name}_{number}"
        unique.append(candidate)
    return unique


def _unescaped(name):
    return re.sub(r"-([0-9a-f]+)-", lambda c: chr(int(c[1], 16)), name)
