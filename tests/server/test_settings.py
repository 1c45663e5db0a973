"""The settings: reading what clients send, and what is generated from their one source."""

import json
import re
from pathlib import Path

import pytest

from fxls.settings import Settings, markdown_table, options, package_configuration

PACKAGE = Path(__file__).parents[2] / "vscode-extension" / "package.json"
README = Path(__file__).parents[2] / "README.md"


def test_nothing_given_is_the_defaults():
    assert Settings.read(None) == (Settings(), ())
    assert Settings.read({}) == (Settings(), ())


def test_nested_and_dotted_keys_mean_the_same():
    nested, _ = Settings.read({"trace": {"timeout": 5}, "interpreter": ["python3"], "inlayHints": False})
    dotted, _ = Settings.read({"trace.timeout": 5, "interpreter": "python3", "inlayHints": False})
    assert nested == dotted
    assert nested.trace_timeout == 5.0
    assert nested.interpreter == ("python3",)
    assert nested.inlay_hints is False


def test_absent_and_null_keys_keep_the_value_before():
    before, _ = Settings.read({"strict": True, "trace": {"memory": 512}})
    after, bad = Settings.read({"strict": None, "trace": {"timeout": 1}}, before)
    assert (after.strict, after.trace_memory, after.trace_timeout, bad) == (True, 512, 1.0, ())


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"strict": "yes"}, '`fxls.strict` must be true or false, not "yes"; false is used'),
        ({"trace": {"timeout": 0}}, "`fxls.trace.timeout` must be at least 0.1, not 0; 10 is used"),
        ({"trace.memory": 1.5}, "`fxls.trace.memory` must be a whole number, not 1.5; 4096 is used"),
        ({"trace.memory": True}, "`fxls.trace.memory` must be a whole number, not true; 4096 is used"),
        ({"interpreter": [1]}, "`fxls.interpreter` must be a list of texts, not [1]; [] is used"),
        (
            {"log": {"level": "loud"}},
            '`fxls.log.level` must be one of error, warning, info, debug, not "loud"; "warning" is used',
        ),
        ([], "`fxls` must be an object, not []"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_said(section, message):
    settings, bad = Settings.read(section)
    assert settings == Settings()
    assert [each.message for each in bad] == [message]


def test_keys_of_others_are_left_alone():
    assert Settings.read({"trusted": True, "trace.server": "verbose", "path": 1})[1] == ()


def test_each_option_is_in_the_schema_and_in_the_table():
    properties = package_configuration()["properties"]
    table = markdown_table()
    assert len(properties) == len(options()) == len(table.splitlines()) - 2
    for option in options():
        assert properties[f"fxls.{option.key}"]["markdownDescription"] == option.description
        assert f"| `fxls.{option.key}` |" in table
        assert re.search(r"[.!…]$", option.description), option.key


def test_the_readme_has_the_table():
    assert markdown_table() in README.read_text("utf-8")


def test_the_schema_says_the_defaults_that_are_used():
    for key, schema in package_configuration()["properties"].items():
        read, bad = Settings.read({key.removeprefix("fxls."): schema["default"]})
        assert (read, bad) == (Settings(), ())


def test_the_extension_declares_these_settings():
    declared = json.loads(PACKAGE.read_text("utf-8"))["contributes"]["configuration"]["properties"]
    generated = package_configuration()["properties"]
    assert {key: declared.get(key) for key in generated} == generated
