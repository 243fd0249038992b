"""Every public function of the metrics shows itself at work, and prints what it says it prints."""

import doctest
import importlib
import inspect
import io
import pkgutil

import pytest

from dlmeval import metrics

MODULES = sorted(info.name for info in pkgutil.iter_modules(metrics.__path__))
# NamedTuples are shown by the functions that return them.
FUNCTIONS = [name for name in metrics.__all__ if inspect.isroutine(getattr(metrics, name))]


def examples(docstring):
    return doctest.DocTestParser().get_examples(docstring or "")


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    # By its full name: some modules share theirs with a function of the package.
    module = importlib.import_module(f"{metrics.__name__}.{name}")
    output = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=output.write)
    assert not runner.failures, output.getvalue()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example_with_a_result(name):
    found = examples(inspect.getdoc(getattr(metrics, name)))
    assert found, f"{name} has no example"
    assert any(f"{name}(" in example.source for example in found), f"{name} is never called"
    assert any(example.want for example in found), f"the example of {name} shows no result"


def test_a_wrong_example_is_noticed():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=lambda _: None)
    assert runner.failures == 1
    assert FUNCTIONS
    assert MODULES
