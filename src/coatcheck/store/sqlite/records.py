"""Small documents, with versions and expiry."""

from __future__ import annotations

from dataclasses import astuple

from coatcheck.model.record import Record
from coatcheck.store.sqlite.operation import Transaction
from coatcheck.store.sqlite.statements import SQL


def put(tx: Transaction, record: Record, expected_version: int | None) -> Record | None:
    """Write a document over the version the caller has seen, or over any."""
    row = tx.one(SQL.record, (record.tenant, record.collection, record.key))
    there = None if row is None else Record(*row)
    written = record.over(there, expected_version)
    if written is not None:
        tx.execute(SQL.put_record, astuple(written))
    return written


def delete(tx: Transaction, tenant: str, collection: str, key: str) -> bool:
    """Delete a document; False when there was none."""
    if tx.one(SQL.record, (tenant, collection, key)) is None:
        return False
    tx.execute(SQL.delete_record, (tenant, collection, key))
    return True
