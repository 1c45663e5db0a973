"""The packaged extension in a real VS Code, with the real server and a real torch: what a person sees and does."""

import pytest

pytestmark = pytest.mark.vscode


def test_tour(tour, step):
    tour.run(step)


def test_several(several, step):
    several.run(step)


def test_trust(trust, step):
    trust.run(step)


def test_environments(environments, step):
    environments.run(step)
