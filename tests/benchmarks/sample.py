"""Results of all parts, made up: random numbers in the form of the files."""

import random

from benchmarks import harness, peer_tables, tables
from benchmarks.growth import TASKS, sizes
from benchmarks.peers import accuracy, files, train_step

SEEDS = (1, 2, 3)
ENVIRONMENT = {
    "date": "2026-01-02",
    "machine": "Linux x86_64",
    "cores": 2,
    "python": "3.11.0",
    "keras": "3.15.1",
    "tensorflow": "2.21.0",
    "numpy": "2.4.6",
}


def results():
    """The content of every part's file by its name."""
    rng = random.Random(1)

    def times(count=5):
        return [rng.uniform(0.5, 1.5) for _ in range(count)]

    made = {
        "peers_train_step": {"rows": _steps(times)},
        "peers_accuracy": {
            "rows": _errors(rng),
            "configuration": {"seeds": list(SEEDS)},
        },
        "peers_files": {"rows": _files(rng, times)},
        "growth": {"rows": _growth(times)},
        "train_step": {"rows": _own_steps(times)},
        "recurrent_step": _recurrent(times),
        "inference": {"rows": _inference(times)},
        "monitor": _monitor(times),
    }
    common = {
        "configuration": {"rounds": 5},
        "environment": ENVIRONMENT,
        "finished": True,
    }
    return {name: {**common, **content} for name, content in made.items()}


def _steps(times):
    rows = []
    for network in train_step.NETWORKS:
        for jit_compile in (True, False):
            seconds = {
                (peer, method): times()
                for peer, methods in train_step.METHODS.items()
                for method in methods
            }
            rows += [
                {
                    "network": network,
                    "jit_compile": jit_compile,
                    "peer": peer,
                    "method": method,
                    "ratio": harness.ratio(
                        seconds, (peer, method), train_step.BASELINE
                    ),
                    "seconds": seconds[peer, method],
                }
                for peer, method in seconds
            ]
    return rows


def _errors(rng):
    methods = [*accuracy.METHODS, *accuracy.ALSO["keras"]]
    return [
        {"method": m, "seed": seed, "test_error": rng.uniform(1, 3)}
        for m in methods
        for seed in SEEDS
    ]


def _files(rng, times):
    return [
        {
            "network": network,
            "format": format,
            "peer": peer,
            "binary_weights": 8_000_000,
            "float_parameters": 10_000,
            "file_bytes": rng.randrange(10**6, 10**7),
            "load_seconds": times(),
            "memory_bytes": [rng.randrange(10**6, 10**7) for _ in range(5)],
            "peak_bytes": [rng.randrange(10**6, 10**7) for _ in range(5)],
            "seconds": {str(n): times() for n in tables.THREADS},
        }
        for network in files.NETWORKS
        for format, peer in files.FORMATS.items()
    ]


def _growth(times):
    return [
        {
            "task": task,
            "weights": weights,
            "seconds": times(),
            "peak_bytes": 10**9,
        }
        for weights in sizes(10**8)
        for task in TASKS
    ]


def _own_steps(times):
    seconds = {"keras": times(), "lab": times()}
    return [
        {
            "network": "mlp",
            "jit_compile": False,
            "allocator": "bfc",
            "scheme": "lab",
            "ratio": harness.ratio(seconds, "lab", "keras"),
            "optimizer_memory_ratio": 1.0,
            "seconds": seconds,
        }
    ]


def _recurrent(times):
    seconds = {"keras": times(), "lab": times()}
    return {
        "rows": [
            {
                "what": "train",
                "layer": layer,
                "jit_compile": False,
                "ratio": harness.ratio(seconds, layer, "keras"),
                "seconds": seconds[layer],
            }
            for layer in seconds
        ],
        "parts": [
            {
                "layer": "lab",
                "jit_compile": False,
                "milliseconds": dict.fromkeys(tables.PARTS, 1.0),
            }
        ],
    }


def _inference(times):
    ratios = sorted(times())
    row = {
        "network": "mlp",
        "format": "fast",
        "file_bytes": 10**6,
        "export_seconds": 2.0,
        "export_memory_bytes": 3 * 10**8,
        "load_milliseconds": 5.0,
        "memory_bytes": 10**7,
        "ratios": ratios,
        "ratio": ratios[2],
        "limit": None,
    }
    return [{**row, "threads": threads} for threads in tables.THREADS]


def _monitor(times):
    seconds = {"train": times(), "measure": times()}
    shares = [
        m / (500 * t) for m, t in zip(seconds["measure"], seconds["train"])
    ]
    return {
        "configuration": {"steps_a_round": 1, "steps_an_epoch": 500},
        "share_of_an_epoch": harness.spread(shares),
        "seconds": seconds,
    }


assert set(peer_tables.NETWORKS) == set(files.NETWORKS)
