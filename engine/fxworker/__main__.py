"""The worker process, started by the path of this file with the user's interpreter: `python …/fxworker/__main__.py`.

Nothing of ours has to be installed there, and nothing there can stand in our way: the packages are adopted by file
location, and the protocol moves to a private descriptor, before any other code runs. The first line that the process
writes is an `EnvironmentReport`; then it answers requests until its input ends. With `--profile` it serves profiles
only, and torch is loaded once, in the process that measures, with `--profile --sandbox` in the sandbox. With
`--one FILE` it answers one request and has its black box in that file: this is how it is used where processes cannot
be forked.

This file must load in an interpreter that is too old for the rest, to say so.
"""

import gc
import importlib.util
import os
import sys
import types

_HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    """Serve until the input ends."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != _HERE]
    _adopt("fxworker")
    importlib.import_module("fxworker.home").move()
    if len(sys.argv) > 2 and sys.argv[1] == "--measure":
        _measure(sys.argv[2])
    elif len(sys.argv) > 3 and sys.argv[1] == "--measure-in":
        # The sandbox is entered while there is one thread; a library that torch loads may start more.
        importlib.import_module("fxworker.sandbox").retire(sys.argv[2])
        _measure(sys.argv[3])
    else:
        requests, answers = _private_descriptors()
        _serve(requests, answers)


def _adopt(name: str) -> None:
    """Make one of our packages importable by the place of its files, whatever `sys.path` says."""
    folder = os.path.join(os.path.dirname(_HERE), name)
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _private_descriptors() -> tuple[int, int]:
    """Return our own descriptors of the protocol; fd 0 becomes empty and fd 1 goes where errors go."""
    requests, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    if sys.platform == "win32":
        for fd in (requests, answers):
            importlib.import_module("msvcrt").setmode(fd, os.O_BINARY)
    return requests, answers


def _serve(requests: int, answers: int) -> None:
    """Serve the protocol: from a template where models can be traced, otherwise by refusing every request."""
    if sys.version_info < (3, 11):  # noqa: UP036 — The user's interpreter is not ours.
        _complain(answers, "Python {}.{} is too old, 3.11 is needed".format(*sys.version_info))
        return
    if sys.argv[1:2] == ["--profile"]:
        confined = sys.argv[2:3] == ["--sandbox"]
        serve = importlib.import_module("fxworker.profiles").serve_profiles
        serve(requests, answers, _measuring_command(), confined=confined)
        return
    alone = sys.argv[1:2] == ["--one"]
    # What is made while torch loads, stays: to look through it again and again takes a quarter of the time.
    gc.disable()
    report = importlib.import_module("fxworker.environment").load(forking=not alone)
    if report.problem:
        importlib.import_module("fxworker.refusal").refuse(requests, answers, report)
        return
    if alone:
        gc.enable()
        _ours("standby").serve_one(requests, answers, sys.argv[2], report)
        return
    template = _ours("serve").Template(requests, answers, report, _measuring_command())
    gc.enable()
    template.run()


def _measuring_command() -> tuple[str, ...]:
    """Return the command that starts a measuring process in the same way as this one was started."""
    options = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv)]
    return (sys.executable, *options, os.path.join(_HERE, "__main__.py"))


def _measure(argument: str) -> None:
    """Be the process that measures one model, or says why it cannot."""
    ends = importlib.import_module("fxworker.children").adopted(argument)
    report = importlib.import_module("fxworker.environment").load()
    if report.problem:
        importlib.import_module("fxworker.refusal").refuse_profile(ends, report)
        return
    _ours("handlers").serve_profile(ends, report)


def _ours(name: str) -> types.ModuleType:
    """Return one of our modules that need the engine, which is adopted with it."""
    pycache = importlib.import_module("fxworker.pycache")
    with pycache.kept(os.environ.get(pycache.FOLDER, ""), os.path.join(_HERE, name + ".py")):
        _adopt("fxengine")
        module = importlib.import_module("fxworker." + name)
    # What models import is the person's: nothing is written beside their files.
    sys.dont_write_bytecode = True
    return module


def _complain(answers: int, problem: str) -> None:
    """Write an `EnvironmentReport` by hand: the protocol's module does not load in a Python this old."""
    json = importlib.import_module("json")
    version = "{}.{}.{}".format(*sys.version_info)
    line = json.dumps(["EnvironmentReport", [], [version, sys.executable, "", [], problem, []]])
    os.write(answers, line.encode("ascii") + b"\n")


if __name__ == "__main__":
    main()
