"""A process that stages a version, reports it, and is killed before or while it publishes."""

import asyncio
import json
import sys

from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.index.open import open_index

from .library import Library


async def main(settings: dict[str, str], version: str, publishes: bool) -> None:
    async with open_index(Settings(**settings)) as index:  # type: ignore[arg-type]
        library = Library(index)
        texts = [f"new part {number}" for number in range(300)]
        await library.stage("a", texts, version)
        print("staged", flush=True)
        if publishes:
            await library.publish("a", len(texts), version)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3] == "publish"))
