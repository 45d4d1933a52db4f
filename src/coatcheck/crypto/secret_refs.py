"""Secret references: a setting may name the location of a secret instead of the secret itself.

- `file:/run/secrets/dsn`: the content of a file, as Docker and Kubernetes mount them.
- `akv:<vault>/<secret>`: a secret in Azure Key Vault, read with the machine's own identity (the
  `azure` extra).
- Any other scheme that an installed package resolves: an entry point in the group
  `coatcheck.secrets`, named like the scheme, that takes the text after the colon and returns the
  secret.

A secret is read when it is needed. It is never logged, put in an environment or in an error. The
production profile rejects a database URL with a password in clear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from coatcheck.errors import ConfigurationError

Resolver = Callable[[str], str]

ENTRY_POINTS = "coatcheck.secrets"


def read_file(path: str) -> str:
    """Read a secret from a file, without surrounding whitespace."""
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigurationError(f"cannot read the secret in {path!r}: {reason}") from error
    if not secret:
        raise ConfigurationError(f"the secret in {path} is empty")
    return secret


def read_azure_key_vault(reference: str) -> str:
    """Read `<vault>/<secret>` from Azure Key Vault."""
    vault, _, name = reference.partition("/")
    if not vault or not name:
        raise ConfigurationError("an Azure Key Vault reference is akv:<vault>/<secret>")
    try:
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an optional part
        from azure.keyvault.secrets import SecretClient  # noqa: PLC0415 - an optional part
    except ImportError as error:
        raise ConfigurationError(
            "akv: references need the azure extra: pip install 'coatcheck[azure]'"
        ) from error
    url = f"https://{vault}.vault.azure.net"
    try:
        secret = SecretClient(url, DefaultAzureCredential()).get_secret(name).value
    except Exception as error:
        raise ConfigurationError(
            f"the secret {name!r} could not be read from vault {vault!r}: {type(error).__name__}"
        ) from error
    if not secret:
        raise ConfigurationError(f"the secret {name!r} in the vault {vault!r} is empty")
    return str(secret)


BUILT_IN: Mapping[str, Resolver] = {"file": read_file, "akv": read_azure_key_vault}


def resolve(value: str) -> str:
    """Return the value of a setting: the text itself, or the secret it refers to."""
    resolver = resolver_for(value)
    return value if resolver is None else resolver(value.partition(":")[2])


def resolver_for(value: str) -> Resolver | None:
    """Return the resolver of a reference; None if the value is not a reference."""
    scheme, colon, rest = value.partition(":")
    if not colon or rest.startswith("//"):
        return None
    if scheme in BUILT_IN:
        return BUILT_IN[scheme]
    for plugin in entry_points(group=ENTRY_POINTS, name=scheme):
        return _checked(scheme, plugin)
    return None


def _checked(scheme: str, plugin: EntryPoint) -> Resolver:
    def resolve_with_plugin(reference: str) -> str:
        try:
            secret = plugin.load()(reference)
        except Exception as error:  # noqa: BLE001 - it is somebody else's code
            # Its message may contain the secret, so only the type of the error is passed on.
            raise ConfigurationError(
                f"the resolver for {scheme}: references failed: {type(error).__name__}"
            ) from None
        if not isinstance(secret, str) or not secret:
            raise ConfigurationError(f"the resolver for {scheme}: references gave no secret")
        return secret

    return resolve_with_plugin
