import asyncio


class Pool:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *why):
        pass

    async def query(self):
        pass


class Feed:
    def __init__(self):
        self.left = 1

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.left:
            raise StopAsyncIteration
        self.left = 0
        return work


async def numbers():
    yield work


def work():
    pass


async def run():
    async with Pool() as pool:
        await pool.query()
    async for job in Feed():
        job()
    async for job in numbers():
        job()


asyncio.run(run())
