"""The named statements of the PostgreSQL store, for one schema."""

from __future__ import annotations

import re
from importlib.resources import files

from coatcheck.errors import ConfigurationError
from coatcheck.store.shared.migrations import Migration, load_migrations
from coatcheck.store.shared.queries import Queries

_FOLDER = files("coatcheck.store.postgres")
# The name of the schema and the channel in the SQL files.
_WRITTEN = "coatcheck"
_PLAIN = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Statements(Queries):
    """The queries for one schema. The notification channel has the schema's name."""

    def __init__(self, schema: str) -> None:
        check_schema_name(schema)
        self.schema = schema
        self.channel = schema
        super().__init__(_FOLDER / "queries.sql", lambda text: for_schema(text, schema))
        claim = self._telling("claim")
        alone = claim.replace("/* crowded */", self.crowded_at_all)
        beside_others = claim.replace("/* crowded */", self.crowded)
        self.claim_everywhere = alone.replace("/* locked */", self.locked_everywhere)
        self.claim_beside_others = beside_others.replace("/* locked */", self.locked_everywhere)
        self.claim_in_lanes = beside_others.replace("/* locked */", self.locked_in_lanes)
        in_turn = claim.replace("/* crowded */", "false").replace("/* begin */", self.begin)
        self.claim_in_turn = in_turn.replace("/* locked */", self.locked_in_turn)
        self.lanes = self.all_lanes.replace("/* lines */", self.lines)
        self.before_turns = self.look_before_turns.replace("/* lines */", self.lines)
        self.write_transitions = self._telling("write_transitions")
        self.settle_as_claimed = self._telling("settle_as_claimed")
        self.succeed_as_claimed = self._telling("succeed_as_claimed")

    def _telling(self, name: str) -> str:
        """Return a statement that writes transitions, completed with their webhook deliveries."""
        statement: str = getattr(self, name)
        return statement.replace("/* called */", self.called)

    def migrations(self) -> list[Migration]:
        """Return the migrations for this schema."""
        return [
            migration._replace(sql=for_schema(migration.sql, self.schema))
            for migration in load_migrations(_FOLDER / "migrations")
        ]


def check_schema_name(schema: str) -> None:
    """Raise ConfigurationError unless a schema's name can be used in SQL without quoting."""
    if not _PLAIN.fullmatch(schema):
        raise ConfigurationError(
            f"{schema!r} cannot name a schema: use lower-case letters, digits and _"
        )


def for_schema(text: str, schema: str) -> str:
    """Replace `coatcheck` in SQL text with the schema's name."""
    return text.replace(f"{_WRITTEN}.", f'"{schema}".').replace(f"'{_WRITTEN}'", f"'{schema}'")
