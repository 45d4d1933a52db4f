"""The parts of the system that every program needs: libraries, a few devices, /proc.

Programs and libraries are public. Configuration may not be, so `/etc` is listed file by file.
"""

from __future__ import annotations

from pathlib import Path

PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

_CONFIGURATION = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
)

# For name lookup and TLS; only for programs with network access.
_OF_THE_NETWORK = (
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
)

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def configuration(network: bool) -> list[str]:
    """Return the files of `/etc` that exist here and contain nothing private."""
    names = _CONFIGURATION + (_OF_THE_NETWORK if network else ())
    return [name for name in names if Path(name).exists()]


def folders() -> list[str]:
    """Return the folders of programs and libraries."""
    return [name for name in FOLDERS if Path(name).exists()]


def environment(folder: Path) -> dict[str, str]:
    """Return the clean environment of a confined program."""
    home = str(folder)
    return {"PATH": PROGRAMS, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home}
