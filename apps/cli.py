"""The ``fovea`` command: finds the command, parses its options, and turns every failure into one line and a code.

Exit codes: 0 done, 1 a stated failure, 2 wrong usage, 3 the model gave an empty answer, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Sequence
from typing import cast

from apps.commands import REGISTRY, Command
from apps.output import Output
from backbone.errors import CancelledError, ConfigError, EmptyAnswerError, FoveaError

DONE, FAILED, USAGE, SILENT, INTERRUPTED = 0, 1, 2, 3, 130
CODES = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 an empty answer, 130 interrupted."
# Packages that only some commands need, and the extra of `pip install` that brings them.
EXTRAS = {
    "gradio": "demo",
    "matplotlib": "demo",
    "skimage": "data",
    "sklearn": "data",
    "easy_vqa": "data",
    "pypdfium2": "documents",
    "rapidocr": "documents",
    "wordllama": "documents",
    "websockets": "server",
    "msgpack": "server",
    "prometheus_client": "server",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; never raises and never shows a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except SystemExit as stop:  # tyro's own: help (0) or a usage error (2), already printed
        return stop.code if isinstance(stop.code, int) else FAILED
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except CancelledError as error:
        return _fail(f"interrupted: {error}", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away, as in `fovea ... | head`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or the interpreter's last flush fails again
        return FAILED
    except ConfigError as error:  # an impossible setting is wrong usage
        return _fail(str(error), USAGE)
    except EmptyAnswerError as error:
        return _fail(str(error), SILENT)
    except FoveaError as error:
        return _fail(str(error), FAILED)
    except ModuleNotFoundError as error:
        return _fail(_missing_module(error), FAILED)
    except OSError as error:
        return _fail(_system_error(error), FAILED)
    except Exception as error:  # a defect of ours: still one line; the traceback is there for whoever asks for it
        if os.environ.get("FOVEA_TRACEBACK"):
            raise
        detail = f"{type(error).__name__}: {error}"
        return _fail(f"internal error: {detail} (set FOVEA_TRACEBACK=1 to see where)", FAILED)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        (sys.stdout if arguments else sys.stderr).write(overview())
        return DONE if arguments else USAGE
    if arguments[0] in ("-V", "--version"):
        from importlib.metadata import version

        sys.stdout.write(f"fovea {version('fovea')}\n")
        return DONE
    for words in (tuple(arguments[:1]), tuple(arguments[:2])):
        if words in REGISTRY:
            return _run(words, arguments[len(words) :])
    group = arguments[0]
    if any(words[0] == group for words in REGISTRY):
        if arguments[1:] and arguments[1] in ("-h", "--help"):
            sys.stdout.write(overview(group))
            return DONE
        if not arguments[1:]:
            return _fail(f"{group} needs one more word: {', '.join(_names(group))}", USAGE)
        return _fail(_unknown(arguments[:2], group), USAGE)
    return _fail(_unknown(arguments[:1]), USAGE)


def _run(words: tuple[str, ...], arguments: list[str]) -> int:
    import tyro

    entry = REGISTRY[words]
    module = importlib.import_module(entry.module)
    # A command whose options depend on a name among its arguments (a world) offers the class that fits them.
    kind = module.command_for(arguments) if hasattr(module, "command_for") else module.Command
    command = cast(
        Command,
        tyro.cli(
            kind,
            prog=" ".join(("fovea", *words)),
            description=f"{inspect.getdoc(kind)}\n\nExample: {entry.example}",
            args=arguments,
            config=(tyro.conf.FlagCreatePairsOff,),
        ),
    )
    output = Output(command.json, sys.stdout)
    if not command.json:
        return command.run(output)
    with contextlib.redirect_stdout(sys.stderr):  # stdout carries the JSON alone, whatever libraries print
        return command.run(output)


def overview(group: str | None = None) -> str:
    """The list of commands, each with an example; of one group such as ``train`` if given."""
    chosen = {words: entry for words, entry in REGISTRY.items() if group is None or words[0] == group}
    lines = ["usage: fovea COMMAND [OPTIONS]", "", "Look closely only where it matters.", ""]
    for words, entry in chosen.items():
        lines += [f"  {' '.join(words):<18} {entry.summary}", f"  {'':<18}   $ {entry.example}"]
    lines += ["", f"fovea COMMAND --help lists a command's options. {CODES}", ""]
    return "\n".join(lines)


def _unknown(given: list[str], group: str | None = None) -> str:
    names = _names(group)
    candidates = [*names, *(name.split()[0] for name in names)]
    close = difflib.get_close_matches(" ".join(given), candidates, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"no command {' '.join(given)!r}; there are: {', '.join(names)}{hint}"


def _names(group: str | None = None) -> list[str]:
    return [" ".join(words) for words in REGISTRY if group is None or words[0] == group]


def _missing_module(error: ModuleNotFoundError) -> str:
    name = (error.name or "").split(".")[0]
    if name in EXTRAS:
        return f"this needs the package {name}, which is not installed; run: pip install -e '.[{EXTRAS[name]}]'"
    return f"{error}; run `fovea doctor` to see what is missing"


def _system_error(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    places = " and ".join(str(place) for place in (error.filename, error.filename2) if place is not None)
    return f"{places}: {error.strerror}; check the path, its permissions and the room on its disk"


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    sys.stderr.write(f"fovea: {line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
