"""A Python for 64-bit ARM that runs on this machine, emulated by qemu-user.

Debian's arm64 packages are unpacked into a folder, and the wheels for aarch64
into another. XNNPACK chooses its kernels by `/proc/cpuinfo`, so the folder has
one that agrees with the CPU that qemu emulates.
"""

import os
import shutil
import sys
from pathlib import Path

from benchmarks.peers.environments import execute
from benchmarks.worker import Cannot

PYTHON = "python3.11"
PACKAGES = (
    f"{PYTHON}-minimal",
    f"lib{PYTHON}-minimal",
    f"lib{PYTHON}-stdlib",
    "libc6",
    "libstdc++6",
    "libgcc-s1",
    "zlib1g",
    "libexpat1",
    "libffi8",
    "libssl3",
    "libbz2-1.0",
    "liblzma5",
    "libuuid1",
)
# Up to the glibc of Debian 12.
PLATFORMS = tuple(f"manylinux_2_{minor}" for minor in range(36, 16, -1))
# What the wheels need, because pip installs no dependencies of another machine.
DEPENDENCIES = (
    "flatbuffers",
    "protobuf",
    "tqdm",
    "typing_extensions",
    "backports.strenum",
    "ml_dtypes",
)
ARM_V8 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
ARM_V82 = f"{ARM_V8} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
# The number of the part, and the features.
CPUS = {"cortex-a53": ("0xd03", ARM_V8), "cortex-a76": ("0xd0b", ARM_V82)}
CPU_INFO = """processor\t: {number}
Features\t: {features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: {part}
CPU revision\t: 4

"""


def install(site: Path, requirements, cpu: str) -> Path:
    """Returns a command that is Python on an emulated CPU.

    `site` is the folder of the wheels; Debian's packages are in one beside it.
    """
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None:
        raise Cannot("qemu not installed", "apt install qemu-user")
    root = site.with_name("arm64")
    _complete(root, _unpack_debian)
    _complete(site, _unpack_wheels, requirements)

    part, features = CPUS[cpu]
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc" / "cpuinfo").write_text(
        "".join(
            CPU_INFO.format(number=number, features=features, part=part)
            for number in range(2)
        )
    )
    command = site / cpu
    command.write_text(
        f"#!/bin/sh\nexec '{qemu}' -L '{root}' -cpu {cpu} "
        f"-E 'PYTHONPATH={site}' '{root}/usr/bin/{PYTHON}' \"$@\"\n"
    )
    command.chmod(0o755)
    return command


def _complete(folder, make, *arguments):
    """Makes a folder, unless it was made completely before."""
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder, *arguments)
        done.touch()


def _unpack_debian(root):
    print("installing Debian's Python for arm64", flush=True)
    work = root / "download"
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    # Lists of their own: those of the machine stay as they are.
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work / "cache",
        "Dir::State::status": os.devnull,
    }
    apt = ["apt-get", "-q"]
    apt += [f"-o{name}={value}" for name, value in options.items()]
    execute("apt-get fails", [*apt, "update"])
    execute("apt-get fails", [*apt, "download", *PACKAGES], cwd=work)
    for package in work.glob("*.deb"):
        execute("dpkg fails", ["dpkg", "-x", package, root])
    shutil.rmtree(work)


def _unpack_wheels(site, requirements):
    print(f"installing {' '.join(requirements)} for aarch64", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet"]
    command += ["--no-deps", "--only-binary=:all:", "--target", site]
    command += ["--python-version", PYTHON.removeprefix("python")]
    for platform in PLATFORMS:
        command += ["--platform", f"{platform}_aarch64"]
    execute("pip install fails", [*command, *requirements, *DEPENDENCIES])
