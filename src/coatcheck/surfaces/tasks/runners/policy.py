"""The command policy: a file of rules, read again whenever it changes.

    # commands.toml
    default = "deny"                      # for commands that no rule matches
    allow = ["echo", "git status ...", "/opt/tools/*"]
    deny = ["git * --upload-pack* ..."]

A rule is written like a command line. Its first part is the program; the others are the arguments,
one for one, each a glob (`*`, `?`, `[ab]`). A last part `...` matches any further arguments. A rule
that is only a program matches any arguments. Deny wins over allow, and both win over `default`,
which is "deny" unless the file says otherwise.

In an *allow* rule, a program without a slash means the one on the system's own path, not another
file of that name. In a *deny* rule it means any file of that name, including one that links to a
file of that name.

A policy prevents mistakes and unintended use. It is not a security boundary: inside the sandbox, an
allowed program can do anything it is able to do.
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

# They turn an argument into a command, or this user into another, so no rule applies to it.
_SHELLS = "sh bash dash ash zsh ksh mksh csh tcsh fish busybox toybox pwsh rbash"
_PRIVILEGE = (
    "sudo su doas pkexec runuser setpriv newgrp sg chroot unshare nsenter mount umount passwd"
)
_STARTERS = (
    "xargs parallel nohup setsid timeout script expect watch ssh systemd-run at batch nice ionice "
    "stdbuf chrt taskset"
)
# They destroy data or change the machine. The sandbox stops them; the policy reports it earlier.
_DESTRUCTIVE = "rm shred dd wipefs mkfs mkfs.* mkswap fdisk sfdisk parted"
_MACHINE = (
    "reboot shutdown halt poweroff init telinit systemctl service iptables ip6tables nft useradd "
    "userdel usermod groupadd groupdel docker podman kubectl crictl runc"
)


@dataclass(frozen=True)
class PolicyDenial:
    """Why a command is denied, and by which rule (None: no rule matches)."""

    message: str
    rule: str | None = None


@dataclass(frozen=True)
class _Rule:
    text: str
    parts: tuple[str, ...]

    def matches(self, programs: Iterable[str], arguments: Sequence[str]) -> bool:
        program, *globs = self.parts
        if not any(fnmatchcase(name, program) for name in programs):
            return False
        if not globs:
            return True
        if globs[-1] == "...":
            globs.pop()
            arguments = arguments[: len(globs)]
        return len(globs) == len(arguments) and all(
            fnmatchcase(argument, glob) for argument, glob in zip(arguments, globs, strict=True)
        )


@dataclass(frozen=True)
class _Rules:
    default: Literal["allow", "deny"]
    allow: tuple[_Rule, ...]
    deny: tuple[_Rule, ...]

    def check(self, argv: Sequence[str]) -> PolicyDenial | None:
        called, arguments = argv[0], argv[1:]
        for rule in self.deny:
            if rule.matches(_denied_names(called), arguments):
                return PolicyDenial(
                    f"{Path(called).name}: denied by the rule {rule.text!r}", rule.text
                )
        for rule in self.allow:
            if rule.matches(_allowed_names(called), arguments):
                return None
        if self.default == "allow":
            return None
        return PolicyDenial(f"{Path(called).name}: no rule of the command policy allows it")


class CommandPolicy:
    """The rules that are currently in force."""

    def __init__(self, path: Path | None = None, *, sandboxed: bool = True) -> None:
        """Read the rules of a file; raise ConfigurationError if they are invalid.

        Without a file, a sandboxed command may be any program except shells and similar, programs
        that destroy data (`rm`, `dd`, `mkfs` ...) and programs that administer the machine. Without
        a sandbox (`sandboxed=False`), nothing is allowed until a file allows it.
        """
        self._path = path
        self._seen = _version(path) if path is not None else None
        self._rules = _read(path) if path is not None else _default_rules(sandboxed)
        self.problem: str | None = None  # why the current file is not in force

    def check(self, argv: Sequence[str]) -> PolicyDenial | None:
        """Return why a command is denied; None if it is allowed."""
        self._reload_if_changed()
        return self._rules.check(argv)

    def _reload_if_changed(self) -> None:
        if self._path is None or (version := _version(self._path)) == self._seen:
            return
        self._seen = version
        try:
            self._rules = _read(self._path)
        except ConfigurationError as error:
            self.problem = f"the previous rules are still in force: {error}"
            logger.error("command policy invalid", extra={"problem": self.problem})
        else:
            self.problem = None
            logger.info("command policy reloaded")


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
        raise ConfigurationError(f"command policy {path}: unknown setting {unknown[0]!r}")
    default = table.get("default", "deny")
    if default not in {"allow", "deny"}:
        raise ConfigurationError(f'command policy {path}: default must be "allow" or "deny"')
    return _Rules(default, *(_rules(path, key, table.get(key, [])) for key in ("allow", "deny")))


def _rules(path: Path, key: str, texts: object) -> tuple[_Rule, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f"command policy {path}: {key} must be a list of strings")
    return tuple(_rule(path, text) for text in texts)


def _rule(path: Path, text: str) -> _Rule:
    try:
        parts = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigurationError(f"command policy {path}: rule {text!r}: {error}") from error
    if not parts or "..." in parts[:-1] or parts == ("...",):
        raise ConfigurationError(
            f"command policy {path}: rule {text!r} must start with a program; ... may only end it"
        )
    return _Rule(text, parts)


def _default_rules(sandboxed: bool) -> _Rules:
    if not sandboxed:
        return _Rules("deny", (), ())
    names = f"{_SHELLS} {_PRIVILEGE} {_STARTERS} {_DESTRUCTIVE} {_MACHINE}".split()
    denied = (*(_Rule(name, (name,)) for name in names), _Rule("env * ...", ("env", "*", "...")))
    return _Rules("allow", (), denied)


def _denied_names(called: str) -> set[str]:
    names = {called, Path(called).name}
    if found := shutil.which(called, path=PROGRAMS):
        target = Path(found).resolve()
        names |= {found, str(target), target.name}
    return names


def _allowed_names(called: str) -> set[str]:
    if "/" not in called:
        found = shutil.which(called, path=PROGRAMS)
        return {called} | ({found} if found else set())
    if ".." in Path(called).parts:
        called = str(Path(called).resolve())
    # A path matches itself, and its bare name if that name resolves to the same file.
    name = Path(called).name
    found = shutil.which(name, path=PROGRAMS)
    same = found is not None and Path(found).resolve() == Path(called).resolve()
    return {called, name} if same else {called}
