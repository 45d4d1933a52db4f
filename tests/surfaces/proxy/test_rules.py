"""Parsing and validation of proxy rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.settings import Settings, load_settings
from coatcheck.surfaces.configured import configured_surfaces
from coatcheck.surfaces.proxy.rule import RoutePattern, Rule, read_rules

TARGET = "http://127.0.0.1:9000"


def rule(match: str = "POST /reports/*", **keys: Any) -> Rule:
    [found] = read_rules([{"match": match, "target": TARGET, **keys}])
    return found


def test_rule_with_every_key() -> None:
    found = rule(
        name="reports",
        timeout="15m",
        retries=5,
        retry_statuses=[502, 503],
        wait="2s",
        repeatable=True,
        headers=["Accept", "Content-Type"],
        secret_headers=["X-Session"],
        credentials="drop",
        on_hangup="cancel",
        concurrency=4,
        keep="7d",
    )
    assert (found.kind, found.timeout_s, found.wait_s, found.keep_s) == (
        "proxy.reports",
        900,
        2,
        604_800,
    )
    assert (found.retries, found.repeatable) == (5, True)
    assert found.retry_statuses == frozenset({502, 503})
    assert found.headers == frozenset({"accept", "content-type"})
    assert found.secret_headers == frozenset({"x-session"})
    assert (found.credentials, found.on_hangup, found.concurrency) == ("drop", "cancel", 4)


def test_missing_keys_have_defaults() -> None:
    found = rule()
    assert (found.name, found.repeatable, found.headers) == ("post-reports", False, None)
    assert (found.retries, found.wait_s, found.timeout_s) == (2, 10, 3600)
    assert (found.credentials, found.on_hangup) == ("seal", "continue")


@pytest.mark.parametrize(
    ("method", "repeatable"),
    [("GET", True), ("PUT", True), ("DELETE", True), ("POST", False), ("PATCH", False)],
)
def test_idempotent_methods_are_repeatable(method: str, repeatable: bool) -> None:
    assert rule(f"{method} /x").repeatable is repeatable


def test_wait_can_be_zero() -> None:
    assert rule(wait=0).wait_s == rule(wait="0s").wait_s == 0


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"macth": "x"}, "unknown key 'macth'; the keys are: concurrency, credentials,"),
        ({"match": "/reports"}, "is not a method and a path"),
        ({"match": "post /reports"}, "is not a method and a path"),
        ({"match": "FETCH /reports"}, "the methods are GET, POST"),
        ({"match": "POST reports"}, "is not a method and a path"),
        ({"match": "POST /reports//x"}, "has the segment ''"),
        ({"match": "POST /reports/"}, "has the segment ''"),
        ({"match": "POST /re*"}, "has the segment 're\\*'"),
        ({"match": "POST /a/../b"}, "has the segment '..'"),
        ({"match": "POST /{a}"}, "has the segment '{a}'"),
        ({"match": "POST /a?b"}, "has the segment"),
        ({"match": 7}, "match is a string, not 7"),
        ({"match": "POST /v1/jobs"}, "/v1 belongs to Coatcheck's own API"),
        ({"match": "GET /v1/*"}, "/v1 belongs to Coatcheck's own API"),
        ({"match": "GET /healthz"}, "/healthz belongs"),
        ({"match": "GET /ui/*"}, "/ui belongs"),
        ({"target": "127.0.0.1:9000"}, "is not a service's address"),
        ({"target": "ftp://example.com"}, "is not a service's address"),
        ({"target": "http://"}, "is not a service's address"),
        ({"target": "http://x:99999"}, "is not a service's address"),
        ({"target": "http://x/?a=1"}, "is not a service's address"),
        ({"target": "http://me:pass@x"}, "must not contain a user name or a password"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"timeout": True}, "timeout: write seconds"),
        ({"timeout": 0}, "must be more than 0"),
        ({"wait": "2h"}, "wait is at most an hour"),
        ({"wait": False}, "wait: write seconds"),
        ({"retries": -1}, "retries is a whole number from 0"),
        ({"retries": 1.5}, "retries is a whole number"),
        ({"retry_statuses": [99]}, "retry_statuses is a list of statuses"),
        ({"retry_statuses": 503}, "retry_statuses is a list of statuses"),
        ({"repeatable": "yes"}, "repeatable is true or false"),
        ({"headers": ["a b"]}, "headers is a list of header names"),
        ({"headers": "accept"}, "headers is a list of header names"),
        ({"credentials": "clear"}, "credentials is seal or drop, not 'clear'"),
        ({"on_hangup": "stop"}, "on_hangup is continue or cancel"),
        ({"concurrency": 0}, "concurrency is a whole number from 1"),
        ({"name": "a b"}, "cannot name a rule"),
    ],
)
def test_invalid_rules_are_rejected(keys: dict[str, Any], said: str) -> None:
    table = {"match": "POST /reports/*", "target": TARGET, **keys}
    with pytest.raises(ConfigurationError, match=said) as raised:
        read_rules([{"match": "GET /fine", "target": TARGET}, table])
    assert str(raised.value).startswith("[[proxy]] 2: ")


@pytest.mark.parametrize("missing", ["match", "target"])
def test_required_keys(missing: str) -> None:
    table = {"match": "GET /x", "target": TARGET}
    del table[missing]
    with pytest.raises(ConfigurationError, match=f"{missing} is missing"):
        read_rules([table])


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("POST /a", "POST /a", True),
        ("POST /a", "GET /a", False),
        ("POST /a/*", "POST /a", False),
        ("POST /a/*", "POST /a/b", True),
        ("POST /a/*", "POST /a/b/c", True),
        ("POST /*", "POST /a/b/c", True),
        ("POST /*", "POST /", False),
        ("POST /a/*/c", "POST /a/b/*", True),
        ("POST /a/*/c", "POST /a/b/d", False),
        ("POST /a/*/c", "POST /*/b/c", True),
        ("POST /a/*/c", "POST /a/b", False),
        ("POST /a/*/c/*", "POST /a/b/c", False),
    ],
)
def test_overlapping_rules_are_rejected(one: str, other: str, overlap: bool) -> None:
    patterns = [RoutePattern.parse(text, "match") for text in (one, other)]
    assert patterns[0].overlaps(patterns[1]) is overlap
    assert patterns[1].overlaps(patterns[0]) is overlap
    tables = [
        {"match": text, "target": TARGET, "name": f"n{n}"} for n, text in enumerate((one, other))
    ]
    if overlap:
        with pytest.raises(ConfigurationError, match="overlaps with"):
            read_rules(tables)
    else:
        assert len(read_rules(tables)) == 2


def test_duplicate_rule_name_is_rejected() -> None:
    tables = [{"match": f"GET /{path}", "target": TARGET, "name": "same"} for path in "ab"]
    with pytest.raises(ConfigurationError, match="there is already a rule 'same'"):
        read_rules(tables)


@pytest.mark.parametrize(
    ("match", "method", "path", "fits"),
    [
        ("POST /a/*", "POST", "/a/b?x=1", True),
        ("POST /a/*", "POST", "/a/b/c", True),
        ("POST /a/*", "POST", "/a", False),
        ("POST /a/*", "GET", "/a/b", False),
        ("GET /a", "HEAD", "/a", True),
        ("GET /a", "GET", "/%61", True),
        ("GET /a/*/c", "GET", "/a/b/c", True),
        ("GET /a/*/c", "GET", "/a/b/d", False),
        ("GET /a/*/c", "GET", "/a/b", False),
        ("GET /", "GET", "/", True),
        ("GET /*", "GET", "/x", True),
    ],
)
def test_pattern_matches(match: str, method: str, path: str, fits: bool) -> None:
    assert RoutePattern.parse(match, "match").matches(method, path) is fits


def config(folder: Path, text: str) -> Settings:
    path = folder / "coatcheck.toml"
    path.write_text(text)
    return load_settings({"config": str(path)}, {})


def test_rules_are_read_from_the_config_file(tmp_path: Path) -> None:
    settings = config(
        tmp_path,
        f'port = 9\n[[proxy]]\nmatch = "POST /a/*"\ntarget = "{TARGET}"\n'
        f'[[proxy]]\nmatch = "GET /b"\ntarget = "{TARGET}"\n',
    )
    assert settings.port == 9
    [surface] = configured_surfaces(settings)
    paths = [(each.method, each.path) for each in surface.endpoints]
    assert paths == [("POST", "/a/{rest:path}"), ("GET", "/b")]
    assert configured_surfaces(Settings()) == []
    assert configured_surfaces(config(tmp_path, "port = 9")) == []


def test_rule_error_names_the_config_file(tmp_path: Path) -> None:
    settings = config(tmp_path, '[[proxy]]\nmatch = "POST /a"\n')
    with pytest.raises(ConfigurationError, match=r"coatcheck.toml: \[\[proxy\]\] 1: target is"):
        configured_surfaces(settings)
    settings = config(tmp_path, '[proxy]\nmatch = "POST /a"\n')
    with pytest.raises(ConfigurationError, match=r"write each proxy as a table: \[\[proxy\]\]"):
        configured_surfaces(settings)
