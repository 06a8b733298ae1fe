"""The estimate of memory against what was measured on a GPU, and against itself."""

import pytest
from rollcall_torch.memory_table import LORA, MEASURED, MEASURED_TOKENS, TOKENS, need_of


@pytest.mark.parametrize("given, measured", MEASURED)
def test_the_estimate_is_within_a_tenth_of_the_measured_peak(given, measured):
    assert need_of("1.5B", 1, **given, fused=True).peak(MEASURED_TOKENS) / 1e9 == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_tokens_chosen_fill_the_room_and_one_more_would_not_fit(ranks):
    need = need_of("1.5B", ranks)
    room = 20e9
    tokens = need.tokens_within(room)
    beside = need.peak(tokens) - need.weights - need.state
    assert beside <= room
    assert need.peak(tokens + 1) - need.weights - need.state > room


def test_more_cards_need_less_of_each():
    peaks = [need_of("7B", ranks).peak(TOKENS) for ranks in (1, 4, 8)]
    assert peaks == sorted(peaks, reverse=True)


def test_one_card_holds_a_frozen_weight_once():
    whole, adapted = need_of("7B", 1), need_of("7B", 1, lora=LORA)
    assert adapted.gathered < whole.gathered / 50
    assert adapted.weights + adapted.gathered == pytest.approx(2 * 7.6e9, rel=0.05)
