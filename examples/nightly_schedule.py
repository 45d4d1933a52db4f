"""A report every night, and a heartbeat every second.

coatcheck serve examples/nightly_schedule.py:app        # in one terminal
python examples/nightly_schedule.py                     # in another
"""

from __future__ import annotations

from datetime import UTC, datetime

from coatcheck import App, Client, Context

app = App()


@app.job(retries=5, timeout="1h")
async def report(ctx: Context, city: str) -> str:
    """Write the nightly report. It may run again after a crash, so it must be idempotent."""
    await ctx.log("writing the report", city=city)
    return f"the report for {city}"


@app.job(keep_succeeded="5m")
async def heartbeat(ctx: Context) -> str:
    await ctx.log("still here")
    return datetime.now(UTC).isoformat(timespec="seconds")


# At 2:30 in Berlin, in summer and winter. If no server was running at that time, it runs once when
# a server starts.
app.schedule("nightly-report", report, "Berlin", cron="30 2 * * *", timezone="Europe/Berlin")

# A tick is skipped while the previous job is unfinished; missed ticks are skipped too.
app.schedule("heartbeat", heartbeat, every="1s", overlap="skip", catch_up="skip")


def main() -> None:
    with Client() as client:
        for schedule in client.schedules():
            when = schedule["cron"] or f"every {schedule['every_s']:g} s"
            print(f"{schedule['name']}: {when}, next at {schedule['next_at']}")
        print("the next nights:", *client.ticks("nightly-report", 3))
        print("now, without waiting:", client.trigger("nightly-report").result(timeout=60))


if __name__ == "__main__":
    main()
