"""What the machine makes jobs of."""

from __future__ import annotations

from hypothesis import strategies as st

TENANTS = ("acme", "umbrella")
KINDS = ("mail", "chart")
QUEUES = ("default", "slow")

# A job without its id and with times from now on. What comes first is drawn most: most jobs are
# plain, so that most histories get somewhere.
drafts = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from(TENANTS),
        "kind": st.sampled_from(KINDS),
        "queue": st.sampled_from(QUEUES),
        "priority": st.integers(-1, 1),
        "public_id": st.sampled_from([None, None, None, None, "r_1", "r_2"]),
        "delay": st.sampled_from([0, 0, 0, -5, 30, 2_000]),
        "deadline": st.sampled_from([None, None, None, 10, 1_000]),
        "attempts": st.sampled_from([3, 2, 1]),
        "on_lost": st.sampled_from(["requeue", "resume", "fail"]),
        "keep": st.sampled_from([10**10, 500, 1]),
    }
)
