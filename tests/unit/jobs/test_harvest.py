"""Made-up addresses are told from people's; a company's own list is never taken for made up."""

from __future__ import annotations

import itertools
from random import Random
from string import ascii_lowercase

import pytest

from mailsift.jobs.intake.harvest import LEAST, HarvestSign, harvest_sign

_FIRST = """
anna ben carla david elena felix greta hanna ivan julia karl lena marc nina oskar paula quentin rosa
simon tina
"""
_LAST = """
adler bauer conrad diaz ebert fischer gruber haas iversen jansen keller lang meyer novak otto peters
quast reuter schmidt thomas ulrich vogel wagner xu young zimmer
"""
# The commonest names, as any dictionary has them.
_COMMON = """
james john robert michael william david richard joseph thomas charles christopher daniel matthew
anthony mark donald steven paul andrew joshua kenneth kevin brian george edward ronald timothy jason
jeffrey ryan jacob gary nicholas eric jonathan stephen larry justin scott brandon benjamin samuel
frank gregory raymond alexander patrick jack dennis jerry mary patricia jennifer linda elizabeth
barbara susan jessica sarah karen nancy lisa betty margaret sandra ashley kimberly emily donna
michelle dorothy carol amanda melissa deborah stephanie rebecca sharon laura cynthia kathleen amy
shirley angela helen anna brenda pamela nicole samantha katherine emma ruth christine catherine
debra rachel carolyn janet virginia maria heather diane julie joyce victoria kelly christina joan
evelyn lauren judith olivia martha peter adam henry
"""
FIRST, LAST, COMMON = _FIRST.split(), _LAST.split(), _COMMON.split()
WORDS = ["".join(word) for word in itertools.product("bdfgk", "aeiou", "lmnrs", "aeo", "tkn")]
random = Random(7)


def people(count: int) -> list[str]:
    """Return a company's addresses: first.last, each person once, some with a number."""
    pairs = random.sample(list(itertools.product([*FIRST, *COMMON], LAST)), count)
    return [f"{a}.{b}{random.choice(['', '', '', '2'])}" for a, b in pairs]


def with_gaps(names: list[str], kept: float) -> list[str]:
    return [name for name in names if random.random() < kept]


@pytest.mark.parametrize(
    ("names", "sign"),
    [
        (["".join(word) for word in itertools.product(ascii_lowercase, repeat=2)], HarvestSign.ALPHABET),
        (
            with_gaps([f"a{a}{b}" for a in ascii_lowercase for b in ascii_lowercase], 0.95),
            HarvestSign.ALPHABET,
        ),
        ([f"{a}.{b}" for a in FIRST for b in LAST], HarvestSign.COMBINED),
        (with_gaps([f"{a}_{b}" for a in FIRST for b in LAST], 0.9), HarvestSign.COMBINED),
        ([*COMMON, *WORDS], HarvestSign.DICTIONARY),
        ([*COMMON, *LAST, *WORDS[:200]], HarvestSign.DICTIONARY),
    ],
)
def test_what_a_program_makes_up_is_recognised(names: list[str], sign: HarvestSign) -> None:
    assert harvest_sign(names) is sign
    assert harvest_sign([name.upper() for name in names]) is sign


@pytest.mark.parametrize(
    "names",
    [
        people(250),
        people(2_000),
        [f"{a[0]}{b}" for a, b in itertools.product([*FIRST, *COMMON], LAST)][:900],  # jsmith
        [f"s{number}" for number in range(100_000, 104_000)],  # students
        [f"user{number}" for number in range(1, 500)],  # members, or a test
        random.sample(
            ["".join(word) for word in itertools.product(ascii_lowercase, repeat=3)], 600
        ),  # initials
        [*random.sample(COMMON, 90), *(f"{a}.{b}" for a, b in zip(FIRST * 9, LAST * 9, strict=False))],
        [f"team{number}-{word}" for number, word in enumerate(WORDS)],
        COMMON[: LEAST - 1],
        [],
    ],
)
def test_a_companys_own_list_is_not(names: list[str]) -> None:
    assert harvest_sign(names) is None
