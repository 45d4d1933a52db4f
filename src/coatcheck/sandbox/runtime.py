"""What every program needs of the system to run at all: its libraries, a few devices, /proc.

Programs and libraries are public; configuration may not be, so `/etc` is named file by file.
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

# To find a host and to know whom to trust; of no use to who may not connect.
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
    """Return the files of `/etc` that exist here and tell nothing about anybody."""
    names = _CONFIGURATION + (_OF_THE_NETWORK if network else ())
    return [name for name in names if Path(name).exists()]


def folders() -> list[str]:
    """Return where programs and libraries lie here."""
    return [name for name in FOLDERS if Path(name).exists()]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment that a confined program starts with: nothing of this process's own."""
    home = str(folder)
    return {"PATH": PROGRAMS, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home}
