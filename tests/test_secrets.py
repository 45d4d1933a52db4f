"""Secret references: where they lead, what is said when they lead nowhere, and what never is."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coatcheck.crypto.secret_refs import resolve, resolver_for
from coatcheck.errors import ConfigurationError
from coatcheck.settings import Settings
from coatcheck.store.open import store_for

SECRET = "postgresql://ada:swordfish@db.example/jobs"


def refusal(reference: str) -> str:
    """Return the ConfigurationError of a reference, which must not contain the secret."""
    with pytest.raises(ConfigurationError) as refused:
        resolve(reference)
    assert "swordfish" not in str(refused.value)
    return str(refused.value)


# --- values that are no references


@pytest.mark.parametrize(
    "value",
    [
        "",
        "jobs.db",
        "sqlite:///data/jobs.db",
        "sqlite:////var/lib/jobs.db",
        SECRET,
        "file:///var/lib/jobs.db",
        "host=db.example user=ada password=swordfish",
    ],
)
def test_a_plain_value_stands_for_itself(value: str) -> None:
    assert resolver_for(value) is None
    assert resolve(value) == value


def test_a_scheme_nobody_resolves_is_taken_as_it_is() -> None:
    assert resolve("nobody:knows") == "nobody:knows"


# --- files


@pytest.mark.parametrize(
    "content", [SECRET, SECRET + "\n", SECRET + "\r\n", f"  {SECRET}\n\n"], ids=repr
)
def test_a_file_reference_is_what_is_in_the_file(tmp_path: Path, content: str) -> None:
    secret = tmp_path / "dsn"
    secret.write_bytes(content.encode())
    assert resolve(f"file:{secret}") == SECRET


def test_a_secret_may_hold_anything_but_a_newline_at_its_end(tmp_path: Path) -> None:
    secret = tmp_path / "dsn"
    secret.write_text("pä$$ wörd:with/everything#☃\n")
    assert resolve(f"file:{secret}") == "pä$$ wörd:with/everything#☃"


def test_a_file_is_read_when_it_is_needed_so_a_rotated_secret_is_found(tmp_path: Path) -> None:
    secret = tmp_path / "dsn"
    for content in ("first", "second"):
        secret.write_text(content)
        assert resolve(f"file:{secret}") == content


def test_a_relative_path_and_one_with_a_colon_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a:b").write_text(SECRET)
    assert resolve("file:a:b") == SECRET


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    said = refusal(f"file:{tmp_path}/nothing")
    assert f"{tmp_path}/nothing" in said
    assert "No such file" in said


def test_a_folder_is_no_secret(tmp_path: Path) -> None:
    assert "directory" in refusal(f"file:{tmp_path}")


@pytest.mark.parametrize("content", [b"", b"\n", b" \t\r\n"], ids=repr)
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dsn").write_bytes(content)
    assert "is empty" in refusal(f"file:{tmp_path}/dsn")


@pytest.mark.parametrize("content", [b"swordfish\xff", b"\xff\xfes\0w\0", b"\x80"], ids=repr)
def test_a_file_that_is_not_utf_8_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dsn").write_bytes(content)
    assert "not UTF-8" in refusal(f"file:{tmp_path}/dsn")


@pytest.mark.parametrize("reference", ["file:", "file:\0"], ids=repr)
def test_a_path_that_cannot_be_one_is_a_matter_of_configuration(reference: str) -> None:
    refusal(reference)


# --- Azure Key Vault


@pytest.mark.parametrize("reference", ["akv:", "akv:vault", "akv:vault/", "akv:/secret"])
def test_a_key_vault_reference_names_a_vault_and_a_secret(reference: str) -> None:
    assert "akv:<vault>/<secret>" in refusal(reference)


def test_without_the_azure_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("azure", "azure.identity", "azure.keyvault", "azure.keyvault.secrets"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install 'coatcheck[azure]'" in refusal("akv:vault/dsn")


# --- plug-ins

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with a resolver for `trial:` references, whose body is given."""

    def install(body: str) -> None:
        site = tmp_path / "site"
        described = site / "trial_secrets-1.0.dist-info"
        described.mkdir(parents=True)
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: trial-secrets\n")
        (described / "entry_points.txt").write_text(
            "[coatcheck.secrets]\ntrial = trial_secrets:read\n"
        )
        (site / "trial_secrets.py").write_text(f"def read(reference):\n    {body}\n")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, "trial_secrets", raising=False)

    return install


def test_an_installed_package_resolves_its_own_scheme(install: Install) -> None:
    assert resolve("trial:a/b:c") == "trial:a/b:c"
    install("return 'secret of ' + reference")
    assert resolve("trial:a/b:c") == "secret of a/b:c"


def test_a_plug_in_satisfies_the_production_profile(install: Install) -> None:
    install(f"return {SECRET!r}")
    store_for(Settings(database="trial:dsn", profile="production"))


@pytest.mark.parametrize("secret", ["''", "None"])
def test_a_plug_in_that_gives_nothing_is_said_to(install: Install, secret: str) -> None:
    install(f"return {secret}")
    assert "trial: references gave no secret" in refusal("trial:dsn")


def test_a_plug_in_that_fails_is_a_matter_of_configuration_and_tells_no_secret(
    install: Install,
) -> None:
    install("raise RuntimeError('the vault said swordfish')")
    assert "trial:" in refusal("trial:dsn")


def test_a_plug_in_that_cannot_be_imported_is_a_matter_of_configuration(install: Install) -> None:
    install("return 1\nimport a_package_that_is_not_there")
    assert "trial" in refusal("trial:dsn")


# --- what is done with them


def test_in_production_an_address_in_clear_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="file:/run/secrets/dsn") as refused:
        store_for(Settings(database=SECRET, profile="production"))
    assert "swordfish" not in str(refused.value)
    assert "db.example" not in str(refused.value)


def test_in_production_a_reference_is_taken(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text(SECRET)
    store_for(Settings(database=f"file:{tmp_path}/dsn", profile="production"))


def test_in_production_a_file_database_needs_no_reference(tmp_path: Path) -> None:
    store_for(Settings(database=f"sqlite:///{tmp_path}/jobs.db", profile="production"))


def test_in_production_an_address_in_clear_to_listen_at_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text(SECRET)
    settings = Settings(database=f"file:{tmp_path}/dsn", listen=SECRET, profile="production")
    with pytest.raises(ConfigurationError) as refused:
        store_for(settings)
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize(
    "secret", ["mysql://ada:swordfish@db.example", "swordfish", "ada:swordfish@db"]
)
def test_a_secret_that_is_no_database_is_refused_without_being_shown(
    tmp_path: Path, secret: str
) -> None:
    (tmp_path / "dsn").write_text(secret)
    with pytest.raises(ConfigurationError) as refused:
        store_for(Settings(database=f"file:{tmp_path}/dsn"))
    assert "swordfish" not in str(refused.value)


def test_nothing_is_logged_while_a_secret_is_resolved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "dsn").write_text(SECRET)
    with caplog.at_level(logging.DEBUG):
        store_for(Settings(database=f"file:{tmp_path}/dsn"))
    assert "swordfish" not in caplog.text
