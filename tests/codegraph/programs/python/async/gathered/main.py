import asyncio


async def one():
    return work


def work():
    pass


async def run():
    results = await asyncio.gather(one(), one())
    results[0]()
    task = asyncio.create_task(one())
    (await task)()


asyncio.run(run())
