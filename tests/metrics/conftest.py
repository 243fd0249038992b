"""What a refusal owes its user, checked alike for all metrics."""

import re
import warnings

import pytest

# What a message must offer beside the name of the argument.
REMEDY = re.compile(
    r"must|need|pass|at least|encode|rescale|lower|score|outside jit|outside jax\.jit|inside jit"
    r"|accepted|cannot|give|fill|leave|choose|one of|use|ask|remove|nothing to|outside \[|hashed"
)


@pytest.fixture(scope="session")
def refused():
    """Runs a call, which must be refused naming the argument (a regular expression).

    A fault ends in a `ValueError` that names the argument and says what to do, or has a limit
    value that the documentation promises: never in NaN, in another exception, or in silence.
    """

    def run(call, argument):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError) as caught:
                call()
        message = str(caught.value)
        assert re.search(argument, message), f"{argument!r} is not named by: {message}"
        assert REMEDY.search(message), f"no remedy in: {message}"
        assert "Traced" not in message, message

    return run
