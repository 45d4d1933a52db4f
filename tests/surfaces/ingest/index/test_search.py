"""Search finds the same passages on both stores."""

import numpy as np
import pytest

from coatcheck.errors import InvalidInput
from coatcheck.surfaces.ingest.index.base import Mode, Query, document_id

from .conftest import IndexLocation
from .library import DIMENSIONS, EMBEDDER, T0, Library, chunks_of, new_version, vector_of

pytestmark = pytest.mark.anyio

PASSAGES = {
    "cafe": "Le café est fermé, señor Müller says naïve things",
    "numbers": "Invoice 2024-117 costs 3.50 EUR, 10% off; see RFC9457 and C++17",
    "japanese": "東京都庁は新宿にあります",
    "russian": "Ёлка стоит в лесу, зима",
    "greek": "Ο ΣΟΦΟΣ άνθρωπος",
    "hindi": "नमस्ते दुनिया",
    "thai": "ภาษาไทยไม่มีช่องว่าง",
    "emoji": "party 🎉 time",
    "code": "def read_file(path): return open(path).read()  # NOT NEAR OR AND",
    "stop": "to be or not to be, that is the question",
    "long": "a" * 500,
    "ligature": "ﬁnally ①",
    "nul": "before\0after",
    "surrogate": "broken \udc80 half",
    "nothing": "*** --- ***",
}

# The expected documents of each query, on both stores.
ASKED = {
    "cafe": {"cafe"},
    "CAFÉ": {"cafe"},
    "muller": {"cafe"},
    "Senor naive": {"cafe"},
    "caf": set(),  # prefixes do not match
    "2024": {"numbers"},
    "2024-117": {"numbers"},
    "3.50": {"numbers"},
    "rfc9457": {"numbers"},
    "C++17": {"numbers"},
    "東京": {"japanese"},
    "東": {"japanese"},
    "елка": {"russian"},
    "ЁЛКА": {"russian"},
    "σοφος": {"greek"},
    "ανθρωπος": {"greek"},
    "दुनिया": {"hindi"},
    "दुन": set(),
    "ไทย": {"thai"},
    "🎉": set(),
    "party 🎉": {"emoji"},
    "read_file": {"code"},
    "path)": {"code"},
    "to be or not": {"stop", "code"},
    "finally": {"ligature"},
    "1": {"ligature"},
    "a" * 500: {"long"},
    "after": {"nul"},
    "half": {"surrogate"},
    "": set(),
    "   ": set(),
    "*": set(),
    '"': set(),
    "\0": set(),
    "\udc80": set(),
    "'; DROP TABLE passages; --": set(),
    'café" OR "party': {"cafe", "emoji", "stop", "code"},
    "party AND (": {"emoji", "code", "numbers"},
    "NEAR(party time, 2)": {"code", "emoji"},
    "words : party": {"emoji"},
    "{words} : ^party*": {"emoji"},
    "-party +time": {"emoji"},
    "party:* & !time | <-> 'x'": {"emoji"},
    "\\ party \\' ''": {"emoji"},
    "%party_": {"emoji"},
}


@pytest.fixture
async def filled(library: Library) -> Library:
    for name, text in PASSAGES.items():
        await library.put(name, text)
    return library


async def test_word_search_is_the_same_on_both_stores(filled: Library) -> None:
    found = {text: await filled.names(text, k=50) for text in ASKED}
    assert found == ASKED


@pytest.mark.parametrize("mode", [Mode.VECTOR, Mode.HYBRID])
async def test_hostile_queries_never_fail(filled: Library, mode: Mode) -> None:
    for text in [*ASKED, "word " * 2000, "x" * 10_000, "'\"\\" * 3000, "的" * 5000]:
        query = Query(text, 5, mode, vector_of(text), EMBEDDER)
        assert len(await filled.index.search("ann", "docs", query)) <= 5


async def test_query_is_truncated(filled: Library) -> None:
    assert await filled.names("filler " * 2000 + "party") == set()
    # Repeated words count once, so many fit.
    assert await filled.names("filler " * 1000 + "party") == {"emoji"}


async def test_invalid_characters_are_replaced_one_for_one(filled: Library) -> None:
    [nul] = await filled.search("after")
    assert (nul.text, nul.end - nul.start) == ("before\ufffdafter", len(nul.text))
    [broken] = await filled.search("half")
    assert len(broken.text) == len("broken ? half")


async def test_rare_words_rank_higher_than_common_ones(library: Library) -> None:
    for number in range(30):
        await library.put(f"d{number}", f"the report of the year number{number} about the sales")
    await library.put("z", "a short note on penguins, and much more that is said at some length")
    best, *_ = await library.search("the report about penguins")
    assert best.name == "z"


async def test_passage_with_more_query_words_ranks_higher(library: Library) -> None:
    await library.put("one", "copper wire and other goods of the shop")
    await library.put("both", "copper pipe and other goods of the shop")
    await library.put("none", "paper bags")
    found = await library.search("copper pipe")
    assert [each.name for each in found] == ["both", "one"]
    assert found[0].score > found[1].score


async def test_vector_search_finds_the_nearest(library: Library) -> None:
    for name, text in (("a", "red green"), ("b", "red blue"), ("c", "yellow black")):
        await library.put(name, text)
    found = await library.search("red green", Mode.VECTOR)
    assert [each.name for each in found][:2] == ["a", "b"]
    assert len(found) == 3


async def test_hybrid_search_fuses_both_rankings(library: Library) -> None:
    # By words `words` is first and `near` is absent; by vectors it is the other way round.
    version = new_version()
    for name, text, meant in (
        ("words", "rare kestrel", "something else"),
        ("both", "kestrel and so many other words beside it in here", "kestrel nest"),
        ("near", "a bird of prey", "kestrel"),
    ):
        document = document_id("ann", "docs", name)
        vectors = vector_of(meant)[None, :]
        await library.index.stage("ann", document, version, chunks_of([text]), vectors, T0)
        await library.publish(name, 1, version)
    by_words = [each.name for each in await library.search("kestrel")]
    search_vectors = [each.name for each in await library.search("kestrel", Mode.VECTOR)]
    assert by_words == ["words", "both"]
    assert search_vectors == ["near", "both", "words"]
    found = await library.search("kestrel", Mode.HYBRID)
    assert [each.name for each in found] == ["words", "both", "near"]
    expected = {
        "words": (11 / 11 + 11 / 13) / 2,
        "both": (11 / 12 + 11 / 12) / 2,
        "near": 11 / 11 / 2,
    }
    for each in found:
        assert each.score == pytest.approx(expected[each.name], abs=1e-5)


async def test_common_words_do_not_outweigh_near_vectors(library: Library) -> None:
    version = new_version()
    for name, text, meant in (
        ("answer", "enamel is less soluble then", "cavities"),
        ("noise", "how do the bees of the garden find the way", "honey"),
        *(
            (f"other{n}", f"how do the trains of line {n} find the way", f"train{n}")
            for n in range(20)
        ),
    ):
        document = document_id("ann", "docs", name)
        vectors = vector_of(meant)[None, :]
        await library.index.stage("ann", document, version, chunks_of([text]), vectors, T0)
        await library.publish(name, 1, version)
    asked = "how do the dentists prevent cavities"
    assert "answer" not in await library.names(asked)
    query = Query(asked, 3, Mode.HYBRID, vector_of("cavities"), EMBEDDER)
    best, *_ = await library.index.search("ann", "docs", query)
    assert best.name == "answer"


@pytest.mark.parametrize("k", [0, -1, 101, 10**9])
async def test_invalid_k_is_rejected(filled: Library, k: int) -> None:
    with pytest.raises(InvalidInput, match="between 1 and 100"):
        await filled.search("party", k=k)


async def test_at_most_k_passages_are_returned(library: Library) -> None:
    await library.put("many", *(f"same text {number}" for number in range(130)))
    for mode in Mode:
        assert len(await library.search("same text", mode, k=1)) == 1
        assert len(await library.search("same text", mode, k=100)) == 100


async def test_vector_search_needs_a_vector(filled: Library) -> None:
    with pytest.raises(InvalidInput, match="needs the vector"):
        await filled.index.search("ann", "docs", Query("party", mode=Mode.VECTOR))
    bad = np.full(DIMENSIONS, np.nan, dtype=np.float32)
    with pytest.raises(InvalidInput, match="finite"):
        await filled.index.search("ann", "docs", Query("x", 5, Mode.VECTOR, bad, EMBEDDER))


async def test_invalid_vectors_are_rejected(library: Library) -> None:
    chunks = chunks_of(["one", "two"])
    for vectors in (
        np.zeros((1, DIMENSIONS), dtype=np.float32),
        np.full((2, DIMENSIONS), np.inf, dtype=np.float32),
    ):
        with pytest.raises(InvalidInput):
            await library.index.stage("ann", "d", "v", chunks, vectors, T0)
    assert await library.index.staged("ann", "d", "v") == set()


async def test_zero_vector_matches_nothing(library: Library) -> None:
    version = new_version()
    nothing = np.zeros((1, DIMENSIONS), dtype=np.float32)
    document = document_id("ann", "docs", "empty")
    await library.index.stage("ann", document, version, chunks_of(["owl"]), nothing, T0)
    await library.publish("empty", 1, version)
    await library.put("other", "owl house")
    assert await library.names("owl house", Mode.VECTOR) == {"other"}
    assert await library.names("owl", Mode.HYBRID) == {"empty", "other"}
    query = Query("owl", 5, Mode.HYBRID, nothing[0], EMBEDDER)
    assert len(await library.index.search("ann", "docs", query)) == 2


async def test_metadata_filter(library: Library) -> None:
    odd = {'we"ird.key$': "it's [1]", "ключ": "значение", "n": "1"}
    await library.put("red", "ball", metadata={"colour": "red", "n": "1"})
    await library.put("blue", "ball", metadata={"colour": "blue", "n": "1"})
    await library.put("odd", "ball", metadata=odd)
    for mode in Mode:
        for filter_, names in (
            ({"colour": "red"}, {"red"}),
            ({"n": "1"}, {"red", "blue", "odd"}),
            ({"n": "1", "colour": "blue"}, {"blue"}),
            ({"colour": "green"}, set()),
            ({"missing": ""}, set()),
            ({"n": "01"}, set()),
            ({"": ""}, set()),
            ({'we"ird.key$': "it's [1]"}, {"odd"}),
            ({"ключ": "значение"}, {"odd"}),
            ({"colour": "red\0"}, set()),
            ({"\udc80": "x"}, set()),
        ):
            assert await library.names("ball", mode, only=filter_) == names, (mode, filter_)


async def test_filtered_documents_do_not_use_up_k(library: Library) -> None:
    await library.put("crowd", *(f"pine {number}" for number in range(120)))
    await library.put("one", "pine and many other trees beside it", metadata={"x": "y"})
    for mode in Mode:
        assert await library.names("pine", mode, k=1, only={"x": "y"}) == {"one"}


async def test_sign_shortlist_finds_the_same_as_exact_search(location: IndexLocation) -> None:
    texts = [f"w{number % 40} w{number % 7} w{number}" for number in range(400)]
    async with location.library(exact_up_to=50, shortlist=150) as library:
        await library.put("first", *texts[:200], metadata={"half": "1"})
        await library.put("second", *texts[200:], metadata={"half": "2"})
        short = {text: await library.search(text, Mode.VECTOR) for text in texts[::40]}
        half = await library.search("w3 w4", Mode.VECTOR, only={"half": "2"})
        assert {each.name for each in half} == {"second"}
    async with location.library() as library:
        found = expected = 0
        for text, some in short.items():
            every = {each.text for each in await library.search(text, Mode.VECTOR)}
            expected += len(every)
            found += len(every & {each.text for each in some})
            assert some[0].text == text
    assert found >= 0.8 * expected


async def test_common_words_are_ignored_if_there_are_rare_ones(library: Library) -> None:
    # More passages than the threshold for common words; see words.py.
    await library.put("crowd", *(f"common usual filler{number}" for number in range(1001)))
    await library.put("rare", "zebra")
    await library.put("pair", "common usual usual")
    await library.put("alone", "common")
    assert await library.names("common zebra") == {"rare"}
    assert await library.names("common usual", k=100) == {"crowd", "pair"}
    assert await library.names("common filler7") == {"crowd"}
