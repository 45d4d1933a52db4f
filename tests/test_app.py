import sys
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from coatcheck import Context, Limits, Retention, RetryPolicy, SurfaceOptions
from coatcheck.app import App, load_app
from coatcheck.errors import ConfigurationError, InvalidPayload
from coatcheck.model.confinement import Confinement
from coatcheck.model.handler import reference_of
from coatcheck.model.kind import Kind
from coatcheck.model.limit import Limit, Rate
from coatcheck.model.schedule import CatchUp, Overlap, ScheduleDefinition, Timing

ANY: TypeAdapter[Any] = TypeAdapter(Any)


class Letter(BaseModel):
    to: str


def test_an_app_declares_kinds_of_jobs() -> None:
    app = App()

    @app.job(retries=5, timeout="15m", on_lost="resume", queue="slow")
    async def send(ctx: Any, letter: Letter) -> int:
        return 1

    kind = app.kinds["send"]
    assert kind.handler is send
    assert (kind.name, kind.isolation, kind.takes_input, kind.queue) == (
        "send",
        "async",
        True,
        "slow",
    )
    assert (kind.terms.max_attempts, kind.terms.on_lost) == (6, "resume")
    assert kind.terms.timeout_ms == 900_000
    assert kind.read_input('{"to":"ada"}') == Letter(to="ada")
    assert kind.write_result(3) == "3"


def test_a_bare_decorator_is_enough() -> None:
    app = App()

    @app.job
    def tidy(ctx: Any) -> None: ...

    kind = app.kinds["tidy"]
    assert (kind.isolation, kind.takes_input, kind.queue) == ("thread", False, "default")
    assert (kind.terms.max_attempts, kind.terms.on_lost) == (3, "requeue")
    assert kind.terms.timeout_ms == 3_600_000
    assert (kind.terms.keep_succeeded_ms, kind.terms.keep_failed_ms) == (86_400_000, 604_800_000)
    assert kind.read_input("null") is None


def test_a_handler_stays_a_function_that_can_be_called() -> None:
    app = App()

    @app.job()
    def double(ctx: Any, number: int) -> int:
        return number * 2

    assert double(None, 4) == 8


def test_a_kind_may_have_another_name_than_its_handler() -> None:
    app = App()

    @app.job("mail.send:v2", keep_succeeded="1d", keep_failed=90)
    def send(ctx: Any) -> None: ...

    assert list(app.kinds) == ["mail.send:v2"]
    assert app.kinds["mail.send:v2"].terms.keep_failed_ms == 90_000


def test_apps_do_not_share_their_kinds() -> None:
    one, other = App(), App()

    @one.job
    def task(ctx: Any) -> None: ...

    assert list(one.kinds) == ["task"]
    assert list(other.kinds) == []


def test_the_kinds_can_be_read_but_not_changed() -> None:
    kinds: Any = App().kinds
    with pytest.raises(TypeError):
        kinds["x"] = 1


def test_without_annotations_any_input_will_do() -> None:
    app = App()

    @app.job
    def echo(ctx, anything):  # type: ignore[no-untyped-def]
        return anything

    assert app.kinds["echo"].read_input('[1,{"a":null}]') == [1, {"a": None}]
    assert app.kinds["echo"].write_result({"x": [1]}) == '{"x":[1]}'


def test_a_handler_without_input_takes_none() -> None:
    app = App()

    @app.job
    def tidy(ctx: Any) -> None: ...

    with pytest.raises(InvalidPayload):
        app.kinds["tidy"].check_input('{"to":"ada"}')


# --- declarations that make no sense


def plain(ctx: Any) -> None: ...


async def natural(ctx: Any) -> None: ...


def nothing_taken() -> None: ...


def too_much_taken(ctx: Any, one: int, two: int) -> None: ...


def unreadable(ctx: Any, thing: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unusable(ctx: Any, thing: Callable[..., "Missing"]) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def nested() -> Callable[..., Any]:
    def inside(ctx: Any) -> None: ...

    return inside


class Opaque:
    """A class pydantic knows nothing about."""


def opaque(ctx: Any, thing: Opaque) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options", "says"),
    [
        (plain, {"name": "two words"}, "'two words' cannot name a kind"),
        (plain, {"name": ""}, "'' cannot name a kind"),
        (plain, {"queue": "a/b"}, "'a/b' cannot name a queue"),
        (plain, {"retries": -1}, "kind 'plain': retries must not be negative"),
        (plain, {"on_drain": "shrug"}, "kind 'plain': on_drain is release or fail, not 'shrug'"),
        (plain, {"on_lost": "shrug"}, "kind 'plain': on_lost is requeue, resume or fail"),
        (plain, {"timeout": "soon"}, "kind 'plain': timeout: 'soon' is not a duration"),
        (plain, {"timeout": 0}, "kind 'plain': timeout must be more than 0"),
        (plain, {"keep_succeeded": "1"}, "kind 'plain': keep_succeeded: '1' is not"),
        (plain, {"keep_failed": -1}, "kind 'plain': keep_failed must be more than 0"),
        (
            plain,
            {"isolation": "async"},
            "kind 'plain' is 'def', which runs with isolation='thread'",
        ),
        (natural, {"isolation": "thread"}, "is 'async def', which runs with isolation='async'"),
        (plain, {"isolation": "rocket"}, "isolation is async, thread or process, not 'rocket'"),
        (lambda ctx: None, {"name": "l", "isolation": "process"}, "its handler is a lambda"),
        (nested(), {"isolation": "process"}, "its handler is defined inside a function"),
        (plain, {"memory": "1GB"}, "memory needs isolation='process'"),
        (plain, {"isolation": "process", "memory": "lots"}, "memory: 'lots' is not a size"),
        (nothing_taken, {}, r"takes \(ctx, input\) or \(ctx\), not 0 arguments"),
        (too_much_taken, {}, "not 3 arguments"),
        (unreadable, {}, "its annotations cannot be read as types"),
        (unusable, {}, "its annotations cannot be read as types"),
        (opaque, {}, "its annotations cannot be read as types"),
    ],
)
def test_a_declaration_that_makes_no_sense(
    handler: Callable[..., Any], options: dict[str, Any], says: str
) -> None:
    app = App()
    with pytest.raises(ConfigurationError, match=says):
        app.job(**options)(handler)
    assert not app.kinds


def test_a_kind_is_declared_once() -> None:
    app = App()
    app.job(plain)
    with pytest.raises(ConfigurationError, match="'plain' is declared twice"):
        app.job("plain")(natural)
    assert app.kinds["plain"].handler is plain


def test_saying_the_natural_isolation_is_fine() -> None:
    app = App()
    app.job(isolation="thread")(plain)
    app.job(isolation="async")(natural)
    assert [kind.isolation for kind in app.kinds.values()] == ["thread", "async"]


def test_a_process_finds_a_handler_by_its_name() -> None:
    app = App()
    app.job(isolation="process", memory="1GB")(plain)
    app.job(isolation="process")(natural)
    kinds = app.kinds
    assert [kind.isolation for kind in kinds.values()] == ["process", "process"]
    assert [kind.memory for kind in kinds.values()] == [1_000_000_000, None]
    assert reference_of(kinds["plain"]) == (__name__, "plain")


def test_a_handler_that_another_decorator_hides_cannot_be_found() -> None:
    app = App()

    def hidden(ctx: Any) -> None: ...

    hidden.__qualname__ = "plain"
    app.job(isolation="process")(hidden)
    with pytest.raises(ConfigurationError, match=r"make @app\.job the outermost one"):
        reference_of(app.kinds["hidden"])


# --- finding an app


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run commands in; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_an_app_is_found_by_module_and_name(project: Path) -> None:
    (project / "shop_jobs.py").write_text("from coatcheck.app import App\napp = App()\nother = 5\n")
    assert isinstance(load_app("shop_jobs:app"), App)
    assert load_app("shop_jobs:app") is load_app("shop_jobs:app")


def test_an_app_is_found_by_path(project: Path) -> None:
    (project / "deep").mkdir()
    (project / "deep" / "path_jobs.py").write_text("from coatcheck.app import App\nmain = App()\n")
    assert isinstance(load_app("deep/path_jobs.py:main"), App)


@pytest.mark.parametrize("reference", ["", "module", "module:", ":app", "module.app"])
def test_a_reference_names_a_module_and_an_app(reference: str) -> None:
    with pytest.raises(ConfigurationError, match="write module:app"):
        load_app(reference)


@pytest.mark.parametrize("reference", ["no_such_module:app", "no.such:app", "missing.py:app"])
def test_a_module_that_is_not_there(project: Path, reference: str) -> None:
    with pytest.raises(ConfigurationError, match="there is no module"):
        load_app(reference)


def test_a_name_that_is_no_app(project: Path) -> None:
    (project / "odd_jobs.py").write_text("number = 5\n")
    with pytest.raises(ConfigurationError, match=r"should be a coatcheck\.App, but is nothing"):
        load_app("odd_jobs:app")
    with pytest.raises(ConfigurationError, match="but is a int"):
        load_app("odd_jobs:number")


def test_an_error_inside_the_module_is_shown_as_it_is(project: Path) -> None:
    (project / "broken_jobs.py").write_text("import not_installed_anywhere\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        load_app("broken_jobs:app")
    (project / "raising_jobs.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_app("raising_jobs:app")


def test_a_missing_import_is_not_mistaken_for_the_module(project: Path) -> None:
    (project / "shopping_jobs.py").write_text("import shopping\n")
    with pytest.raises(ModuleNotFoundError, match="shopping"):
        load_app("shopping_jobs:app")


def test_an_app_declares_schedules() -> None:
    app = App()

    @app.job("letters:send")
    async def send(ctx: Any, letter: Letter) -> None: ...

    app.schedule("nightly", send, Letter(to="ada"), cron="0 3 * * *", timezone="Europe/Berlin")
    start = datetime(2030, 1, 1, tzinfo=UTC)
    app.schedule(
        "often",
        "letters:send",
        {"to": "ada"},
        every="1h30m",
        start_at=start,
        queue="slow",
        priority=3,
        labels={"b": "2", "a": "1"},
        deadline_s=60,
        max_attempts=1,
        catch_up="all",
        overlap="skip",
    )
    assert app.schedules == {
        "nightly": ScheduleDefinition(
            "nightly",
            "letters:send",
            Timing(cron="0 3 * * *", timezone="Europe/Berlin"),
            input='{"to":"ada"}',
        ),
        "often": ScheduleDefinition(
            "often",
            "letters:send",
            Timing(every_ms=5_400_000, start_at=int(start.timestamp() * 1000)),
            input='{"to":"ada"}',
            queue="slow",
            priority=3,
            labels='{"a": "1", "b": "2"}',
            deadline_s=60,
            max_attempts=1,
            catch_up=CatchUp.ALL,
            overlap=Overlap.SKIP,
        ),
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "either a cron expression or an interval"),
        ({"cron": "0 3 * * *", "every": 5}, "either a cron expression or an interval"),
        ({"cron": "0 25 * * *"}, "hour: 25 is not between 0 and 23"),
        ({"cron": "@daily", "timezone": "Berlin"}, "'Berlin' is not a time zone"),
        ({"every": "soon"}, "schedule 'nightly': every: 'soon' is not a duration"),
        ({"every": 0.5}, "between a second and ten years"),
        ({"every": 5, "start_at": datetime(2030, 1, 1)}, "needs an offset"),  # noqa: DTZ001 - wrong
        ({"every": 5, "catch_up": "some"}, "'some' is not a valid CatchUp"),
        ({"every": 5, "queue": "a b"}, "/queue"),
        ({"every": 5, "labels": {"schedule": "x"}}, "/labels/schedule"),
        ({"every": 5, "name": "not a name"}, "/name"),
        ({"every": 5, "kind": "unknown"}, "there is no kind 'unknown'"),
        ({"every": 5, "kind": len}, "not declared here; add @app.job to it"),
        ({"every": 5, "input": {"to": 7}}, "does not fit kind 'send'"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused_where_it_is_declared(
    arguments: dict[str, Any], complaint: str
) -> None:
    app = App()

    @app.job
    async def send(ctx: Any, letter: Letter) -> None: ...

    given = {"name": "nightly", "kind": send, "input": {"to": "ada"}, **arguments}
    with pytest.raises(ConfigurationError, match=complaint):
        app.schedule(**given)
    assert app.schedules == {}


def test_a_schedule_is_declared_once() -> None:
    app = App()

    @app.job
    async def tidy(ctx: Any) -> None: ...

    app.schedule("nightly", tidy, cron="@daily")
    with pytest.raises(ConfigurationError, match="declared twice"):
        app.schedule("nightly", tidy, cron="@daily")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"concurrency": 0}, "concurrency is a whole number from 1 on, not 0"),
        ({"concurrency": "3"}, "concurrency is a whole number"),
        ({"concurrency": True}, "concurrency is a whole number"),
        ({"concurrency_key": "customer"}, "concurrency_key is a function of the input"),
        ({"rate": "fast"}, "'fast' is not a rate"),
        ({"rate": "0/s"}, "'0/s' is not a rate"),
        ({"rate": "10/y"}, "'10/y' is not a rate"),
        ({"rate": 10}, "10 is not a rate"),
        ({"rate": "100000000/s"}, "more than a million a second"),
        ({"version": "a b"}, "version 'a b'"),
        ({"version": ""}, "version ''"),
        ({"limits": Limits(age_boosts=dict)}, "age_boosts need concurrency, a key or a rate"),
    ],
)
def test_limits_that_are_none_are_refused(declared: dict[str, Any], said: str) -> None:
    app = App()
    with pytest.raises(ConfigurationError, match=said):

        @app.job(**declared)
        async def limited(ctx: Context) -> None: ...

    assert not app.kinds


def test_limits_as_they_are_declared() -> None:
    app = App()

    @app.job(concurrency=3, rate="10/m", version="2")
    async def both(ctx: Context) -> None: ...

    @app.job(concurrency_key=lambda number: number)
    async def keyed(ctx: Context, number: int) -> None: ...

    assert app.kinds["both"].limit == Limit(3, False, Rate("10/m", 6_000_000))
    assert app.kinds["both"].version == "2"
    assert app.kinds["keyed"].limit == Limit(1, by_key=True)


async def work(ctx: Context, number: int) -> None: ...


def declared(**options: Any) -> Kind:
    app = App()
    app.job(**options)(work)
    return replace(app.kinds["work"], handler=print, input_type=ANY, result_type=ANY)


def key_of(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("group", "value"),
    [
        ("retry", RetryPolicy(5, "fail", "release", "fail")),
        ("limits", Limits(3, key_of, "10/m")),
        ("retention", Retention("1h", "2h", "30m", True)),
    ],
)
def test_a_group_of_options_means_the_same_as_its_fields(group: str, value: Any) -> None:
    flat = {field.name: getattr(value, field.name) for field in fields(value)}
    flat.pop("age_boosts", None)
    assert declared(**{group: value}) == declared(**flat) != declared()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"retry": RetryPolicy(), "retries": 3},
            r"kind 'work': give retries in retry=RetryPolicy\(...\) or directly, not both",
        ),
        (
            {"limits": Limits(1), "rate": "1/s", "concurrency": 2},
            "give rate, concurrency in limits",
        ),
        ({"retention": Retention(), "payload_ttl": "1h"}, "give payload_ttl in retention"),
        ({"retry": 5}, "retry is a RetryPolicy, not 5"),
    ],
)
def test_an_option_is_given_in_one_form(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        declared(**options)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'retires'"):
        App().job(retires=3)  # type: ignore[call-overload]


def test_deprecated_options_warn_and_still_work() -> None:
    def boosts() -> dict[str, int]:
        return {}

    confinement = Confinement()
    with pytest.warns(DeprecationWarning) as warned:
        old = declared(
            isolation="process",
            concurrency=1,
            head_starts=boosts,
            internal=True,
            confinement=confinement,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = declared(
            isolation="process",
            limits=Limits(concurrency=1, age_boosts=boosts),
            surface=SurfaceOptions(internal=True, confinement=confinement),
        )
    assert old == new
    assert [str(warning.message) for warning in warned] == [
        "App.job(head_starts=...) is deprecated; use limits=Limits(age_boosts=...)",
        "App.job(internal=...) is deprecated; use surface=SurfaceOptions(internal=...)",
        "App.job(confinement=...) is deprecated; use surface=SurfaceOptions(confinement=...)",
    ]
    assert {warning.filename for warning in warned} == {__file__}


def test_the_old_name_of_the_webhook_format_warns_and_still_works() -> None:
    class Shouting:
        surface = "shouts"

    with pytest.warns(DeprecationWarning, match=r"surface=SurfaceOptions\(webhook_format=...\)"):
        assert isinstance(declared(wording=Shouting()).webhook_format, Shouting)
