import asyncio


async def fetch():
    return parse


def parse():
    pass


async def run():
    job = await fetch()
    job()


asyncio.run(run())
