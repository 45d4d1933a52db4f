"""The systems compared on PostgreSQL, each in its fastest setting here; see the README.

If a system takes part in several settings, goals compare with the fastest of them.
"""

from __future__ import annotations

from benchmarks.contestants import Contestant

OURS = Contestant(
    name="coatcheck",
    family="coatcheck",
    label="Coatcheck",
    module="benchmarks.postgres.ours",
    variant="default",
    callers=64,
    essential=True,
)
OURS_64 = Contestant(
    name="coatcheck-64",
    family="coatcheck",
    label="Coatcheck, concurrency 64",
    module="benchmarks.postgres.ours",
    variant="64",
    callers=64,
    essential=True,
)
OURS_256 = Contestant(
    name="coatcheck-256",
    family="coatcheck",
    label="Coatcheck, concurrency 256",
    module="benchmarks.postgres.ours",
    variant="256",
    callers=64,
)
OURS_BATCHED = Contestant(
    name="coatcheck-batched",
    family="coatcheck",
    label="Coatcheck, concurrency 256, submitted in lists",
    module="benchmarks.postgres.ours",
    variant="batched",
    callers=1,
)
PGQUEUER = Contestant(
    name="pgqueuer",
    family="pgqueuer",
    label="PgQueuer, batches of 50",
    module="benchmarks.peers.pgqueuer_peer",
    variant="single",
    callers=64,
    peer="pgqueuer",
    essential=True,
)
PGQUEUER_BATCHED = Contestant(
    name="pgqueuer-batched",
    family="pgqueuer",
    label="PgQueuer, batches of 50, submitted in lists",
    module="benchmarks.peers.pgqueuer_peer",
    variant="batched",
    callers=1,
    peer="pgqueuer",
    essential=True,
)
PGQUEUER_500 = Contestant(
    name="pgqueuer-500",
    family="pgqueuer",
    label="PgQueuer, batches of 500, submitted in lists",
    module="benchmarks.peers.pgqueuer_peer",
    variant="batched-500",
    callers=1,
    peer="pgqueuer",
    essential=True,
)
PROCRASTINATE = Contestant(
    name="procrastinate",
    family="procrastinate",
    label="Procrastinate",
    module="benchmarks.peers.procrastinate_peer",
    variant="single",
    callers=4,
    peer="procrastinate",
    essential=True,
)
PROCRASTINATE_BATCHED = Contestant(
    name="procrastinate-batched",
    family="procrastinate",
    label="Procrastinate, submitted in lists",
    module="benchmarks.peers.procrastinate_peer",
    variant="batched",
    callers=1,
    peer="procrastinate",
)
DBOS = Contestant(
    name="dbos",
    family="dbos",
    label="DBOS",
    module="benchmarks.peers.dbos_postgres_peer",
    variant="queue",
    callers=4,
    peer="dbos",
    essential=True,
)
GRAPHILE = Contestant(
    name="graphile",
    family="graphile",
    label="Graphile Worker (Node, no results)",
    module="benchmarks.peers.graphile_peer",
    variant="single",
    callers=8,
    peer="graphile",
    essential=True,
)
GRAPHILE_BATCHED = Contestant(
    name="graphile-batched",
    family="graphile",
    label="Graphile Worker (Node, no results), in lists",
    module="benchmarks.peers.graphile_peer",
    variant="batched",
    callers=1,
    peer="graphile",
    essential=True,
)

ONE_BY_ONE = (OURS, PGQUEUER, PROCRASTINATE, DBOS, GRAPHILE)
# DBOS has no call that takes a list.
IN_LISTS = (OURS_BATCHED, PGQUEUER_BATCHED, PROCRASTINATE_BATCHED, GRAPHILE_BATCHED)
WORKING = (OURS, OURS_64, OURS_256, PGQUEUER, PGQUEUER_500, PROCRASTINATE, DBOS, GRAPHILE)
IDLE = (OURS, PGQUEUER, PROCRASTINATE, DBOS, GRAPHILE)
# 64 jobs at once have 64 slots, as DBOS has a thread for each.
STEPPING = (OURS_64, DBOS)
END_TO_END = (
    OURS,
    OURS_64,
    OURS_256,
    OURS_BATCHED,
    PGQUEUER,
    PGQUEUER_BATCHED,
    PGQUEUER_500,
    PROCRASTINATE,
    DBOS,
    GRAPHILE,
    GRAPHILE_BATCHED,
)
EVERYBODY = (*END_TO_END, PROCRASTINATE_BATCHED)
