"""Which commands may be asked for: a file of rules, read again whenever it changes.

    # commands.toml
    default = "deny"                      # for what no rule speaks of
    allow = ["echo", "git status ...", "/opt/tools/*"]
    deny = ["git * --upload-pack* ..."]

A rule is written like a command line. Its first part is the program, its others are the arguments,
one for one, each a glob (`*`, `?`, `[ab]`). A last part `...` stands for whatever follows. A rule
that is only a program takes any arguments. Deny wins over allow, and both over `default`, which is
"deny" unless the file says otherwise.

A program without a slash in a rule that *allows* means the one on the system's own path: another
file of that name somewhere else is not meant. In a rule that *denies* it means any file of that
name, and also one that leads to a file of that name by links.

A policy keeps people from mistakes and from what is none of their business here. It is not the
wall: a program that is allowed can do, inside the sandbox, whatever it can do.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox.runtime import PROGRAMS

logger = logging.getLogger("coatcheck.tasks")

_KEYS = {"default", "allow", "deny"}

# They make of an argument a command, or of this user another: what runs then has passed no rule.
_SHELLS = "sh bash dash ash zsh ksh mksh csh tcsh fish busybox toybox pwsh rbash"
_PRIVILEGE = (
    "sudo su doas pkexec runuser setpriv newgrp sg chroot unshare nsenter mount umount passwd"
)
_STARTERS = (
    "xargs parallel nohup setsid timeout script expect watch ssh systemd-run at batch nice ionice "
    "stdbuf chrt taskset"
)
# They destroy data or change the machine. The sandbox stops them; a person is told beforehand.
_DESTRUCTIVE = "rm shred dd wipefs mkfs mkfs.* mkswap fdisk sfdisk parted"
_MACHINE = (
    "reboot shutdown halt poweroff init telinit systemctl service iptables ip6tables nft useradd "
    "userdel usermod groupadd groupdel docker podman kubectl crictl runc"
)


@dataclass(frozen=True)
class PolicyDenial:
    """Why a command may not be run, and the rule that says so (None: none speaks of it)."""

    message: str
    rule: str | None = None


@dataclass(frozen=True)
class _Rule:
    text: str
    parts: tuple[str, ...]

    def fits(self, programs: Iterable[str], arguments: Sequence[str]) -> bool:
        program, *wanted = self.parts
        if not any(fnmatchcase(name, program) for name in programs):
            return False
        if not wanted:
            return True
        if wanted[-1] == "...":
            wanted.pop()
            arguments = arguments[: len(wanted)]
        return len(wanted) == len(arguments) and all(
            fnmatchcase(argument, glob) for argument, glob in zip(arguments, wanted, strict=True)
        )


@dataclass(frozen=True)
class _Rules:
    default: Literal["allow", "deny"]
    allow: tuple[_Rule, ...]
    deny: tuple[_Rule, ...]

    def check(self, argv: Sequence[str]) -> PolicyDenial | None:
        called, arguments = argv[0], argv[1:]
        for rule in self.deny:
            if rule.fits(_denied_names(called), arguments):
                return PolicyDenial(
                    f"{Path(called).name}: denied by the rule {rule.text!r}", rule.text
                )
        for rule in self.allow:
            if rule.fits(_allowed_names(called), arguments):
                return None
        if self.default == "allow":
            return None
        return PolicyDenial(f"{Path(called).name}: no rule of the command policy allows it")


class CommandPolicy:
    """The rules that are in force now."""

    def __init__(self, path: Path | None = None, *, sandboxed: bool = True) -> None:
        """Read the rules of a file; raises ConfigurationError.

        Without a file, what runs in a sandbox may be any program but shells and their like, what
        destroys data (`rm`, `dd`, `mkfs` ...) and what administers the machine; where there is no
        sandbox (`sandboxed=False`), nothing is allowed until a file allows it.
        """
        self._path = path
        self._seen = _version(path) if path is not None else None
        self._rules = _read(path) if path is not None else _without_a_file(sandboxed)
        self.problem: str | None = None  # why the file as it is now is not in force

    def check(self, argv: Sequence[str]) -> PolicyDenial | None:
        """Say why a command may not be run; None where it may."""
        self._read_again()
        return self._rules.check(argv)

    def _read_again(self) -> None:
        if self._path is None or (version := _version(self._path)) == self._seen:
            return
        self._seen = version
        try:
            self._rules = _read(self._path)
        except ConfigurationError as error:
            self.problem = f"the rules from before are still in force: {error}"
            logger.error("the command policy has changed and cannot be read: %s", self.problem)
        else:
            self.problem = None
            logger.info("the command policy was read again")


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> _Rules:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"command policy {path}: {error}") from error
    if unknown := sorted(table.keys() - _KEYS):
        raise ConfigurationError(f"command policy {path}: there is no setting {unknown[0]!r}")
    default = table.get("default", "deny")
    if default not in {"allow", "deny"}:
        raise ConfigurationError(f'command policy {path}: default is "allow" or "deny"')
    return _Rules(default, *(_rules(path, key, table.get(key, [])) for key in ("allow", "deny")))


def _rules(path: Path, key: str, texts: object) -> tuple[_Rule, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f"command policy {path}: {key} is a list of strings")
    return tuple(_rule(path, text) for text in texts)


def _rule(path: Path, text: str) -> _Rule:
    try:
        parts = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigurationError(f"command policy {path}: rule {text!r}: {error}") from error
    if not parts or "..." in parts[:-1] or parts == ("...",):
        raise ConfigurationError(
            f"command policy {path}: rule {text!r} needs a program first, and ... only at its end"
        )
    return _Rule(text, parts)


def _without_a_file(sandboxed: bool) -> _Rules:
    if not sandboxed:
        return _Rules("deny", (), ())
    names = f"{_SHELLS} {_PRIVILEGE} {_STARTERS} {_DESTRUCTIVE} {_MACHINE}".split()
    denied = (*(_Rule(name, (name,)) for name in names), _Rule("env * ...", ("env", "*", "...")))
    return _Rules("allow", (), denied)


def _denied_names(called: str) -> set[str]:
    names = {called, Path(called).name}
    if found := shutil.which(called, path=PROGRAMS):
        lies = Path(found).resolve()
        names |= {found, str(lies), lies.name}
    return names


def _allowed_names(called: str) -> set[str]:
    if "/" not in called:
        found = shutil.which(called, path=PROGRAMS)
        return {called} | ({found} if found else set())
    if ".." in Path(called).parts:
        called = str(Path(called).resolve())
    # By its path: as itself, and by its name where that name leads to the very same file.
    name = Path(called).name
    found = shutil.which(name, path=PROGRAMS)
    same = found is not None and Path(found).resolve() == Path(called).resolve()
    return {called, name} if same else {called}
