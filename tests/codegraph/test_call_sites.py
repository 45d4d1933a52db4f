from __future__ import annotations

from coatcheck.codegraph.points_to.call_sites import CallEdges, CallSite


def test_clone_has_the_same_arguments_and_another_result() -> None:
    site = CallSite(4, (5, -6, 0), (("key", 7), (None, 8)), 9, 10, 11, is_declaration=True)
    clone = site.clone(12)
    assert (clone.result, clone.positional, clone.keywords) == (12, site.positional, site.keywords)
    assert (clone.caller, clone.line) == (9, 10)
    assert (clone.callee, clone.is_declaration) == (0, False)


def test_call_site_calls_each_value_and_each_method_once() -> None:
    site = CallSite(1, (), (), 2, 3)
    called = [site.mark_called(value % 20) for value in range(60)]
    assert called == [True] * 20 + [False] * 40
    assert [site.mark_called((5, name)) for name in ("__str__", "__repr__")] == [True] * 2
    assert not site.mark_called((5, "__str__"))
    assert not site.mark_called(5)


def test_edges_come_in_the_order_of_their_call_sites() -> None:
    first, second = (CallSite(1, (), (), caller, 3, 4) for caller in (5, 6))
    edges = CallEdges()
    for site, target in ((second, "os.path"), (first, 7), (second, 8), (second, 9), (second, 8)):
        edges.add(site, target)
    assert list(edges) == [(second, "os.path"), (second, 8), (second, 9), (first, 7)]
