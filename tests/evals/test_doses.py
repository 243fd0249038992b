"""Doses: arms that differ in the fraction alone differ in what is put back."""

import pytest

from dlmeval.evals import InputError
from dlmeval.evals.doses import check_doses
from dlmeval.evals.experiments import dose
from dlmeval.evals.sampling.idle_remasking import reads_fraction
from dlmeval.samplers import SamplerConfig, strategy_names


def config(**changes):
    fixed = {"gen_length": 20, "num_steps": (10,), "fractions": (0.0, 0.1, 0.2)}
    return dose.Config(**(fixed | changes))


def check(settings):
    check_doses(settings, settings.fractions)


def test_doses_of_their_own_pass():
    check(config())
    check(config(strategies=("high_entropy", "random", "agreement", "prism")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fractions": (0.1, 0.12)}, "--fractions=0.1 and 0.12 are both 2 of 20 tokens"),
        ({"fractions": (0.0, 0.04)}, "--fractions=0 and 0.04 are both 0 of 20 tokens"),
        (
            {"block_length": 5, "num_steps": (8,)},
            "--fractions=0 and 0.1 are both 0 of 5 tokens a block",
        ),
        ({"strategies": ("running_confidence",)}, "does not read the fraction"),
        ({"strategies": ("origin",)}, "--strategies=origin does not read the fraction"),
        ({"strategies": ("bogus",)}, "--strategies=bogus, --fractions=0: .*is not one of"),
    ],
)
def test_doses_that_would_be_one_arm_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        check(config(**changes))


def test_only_strategies_that_count_by_the_fraction_read_it():
    reading = {
        name for name in strategy_names() if reads_fraction(SamplerConfig(20, 10, name, 0.0))
    }
    ranking = {"random", "low_confidence", "high_entropy", "conf_entropy", "agreement"}
    assert reading == ranking | {"t2m_lowprob", "t2m_trigger", "t2m_diff", "prism"}
