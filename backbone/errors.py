"""The typed errors of Fovea. Every message says what is wrong, what was expected, what was found, and what to do."""


class FoveaError(Exception):
    """Base of everything Fovea raises on purpose; the command line turns it into exit code 1 and one readable line."""


class ConfigError(FoveaError, ValueError):
    """A setting is impossible or contradicts another one."""


class DataError(FoveaError, ValueError):
    """An input (image, document, record, benchmark file) is broken, too large, or not in the stated layout."""


class InstructionError(DataError):
    """An agent was given an instruction that it cannot follow; the fault is the asker's, not the agent's."""


class ModelError(FoveaError, RuntimeError):
    """Weights, tokenizer or architecture do not fit together, or the model cannot do what was asked of it."""


class EmptyAnswerError(ModelError):
    """The model ran and said nothing; the command line turns it into exit code 3, so that a script can ask again."""


class UnsupportedError(ModelError):
    """This kind of model cannot do this (for example hidden states of a remote server)."""


class RemoteError(FoveaError, RuntimeError):
    """A remote model server is unreachable, too slow, or answered something else than its protocol."""


class CancelledError(FoveaError, RuntimeError):
    """The caller's stop event was set; partial work was discarded or is stated in the message."""


class TrainingError(FoveaError, RuntimeError):
    """Training cannot go on, for example because the loss is no longer a number; the last checkpoint is untouched."""


class WorldError(FoveaError, RuntimeError):
    """A simulator is missing, failed, hung, or was used out of order; the message carries its own traceback's end."""


class ServerError(FoveaError, RuntimeError):
    """A policy server refused, failed, hung or broke its protocol; the message says which server and what to try."""
