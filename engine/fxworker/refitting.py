"""What may mend the arguments that make a model which does not run: by what it says when it is called.

First come the sizes that did not agree, then what is called or gone through, and at last what mends a constructor.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Final

from torch import nn

from fxengine.errors import text_of
from fxworker.choices import Choice, Group, Value, fields_in, joined, literal, owner_of, parameters_of
from fxworker.complaints import Complaint, complaint_of
from fxworker.examples import LIBRARY, READING, SPEAKING
from fxworker.mending import Mending
from fxworker.proposing import Proposals
from fxworker.stock import LAYER_NORM, SCORES, fits, halving, is_stand_in, scoring, takes_any, to_call
from fxworker.together import is_list
from fxworker.variations import made_odd, of_length, one_side

_AGAIN: Final = 0.5
_MOST_AGAIN: Final = 4.0
"""What it adds to the cost of what is tried each time that a complaint has been heard before, and at most."""
_OF_SIDES: Final = re.compile(r"size|kernel|stride|pad|shape|resolution|window|patch")
"""What lists are called that have something for each side of a picture."""
_OF_STEPS: Final = re.compile(r"(\w+_)?(strides?|dilations?)")
"""What tells how far a layer goes at once."""
_OF_WIDTH: Final = re.compile(
    r"(?!spatial|n_?dims|num_dims)(\w+_)?(in|out|input|output|hid(den)?|mid|c(in|out))?_?(planes?|ch(annel)?s?|features?|dims?|filters)|c_?(in|out)"
)
"""What tells how many channels, or features, something has."""
_OF_NORM: Final = re.compile(r"Given normalized_shape=.* but got input of size(?: torch\.Size\()?\[([\d, ]+)\]")
"""What a norm of the last size says of pictures, whose channels come first."""
_DOUBLING: Final = re.compile(r"double|twice|half")
"""What flags are called by which a size is another."""
_DIMENSIONAL: Final = re.compile(r"expected \d-dimensional weight")
"""What a layer says that was made with more sides than it has."""
_CALLED: Final = re.compile(
    r"object is not callable|(?:forward|gelu|relu)\(\) (?:takes|got|missing)|unexpected keyword"
)
"""What is said of something that was called with what it does not take."""
_OF_CLASSES: Final = re.compile(
    r"Expected dtype int32/int64 for index|Expected target size|expected scalar type Long"
    r"|softmax\w*\" not implemented for 'Long'"
)
"""What is said of classes that are none, or not of as many as there are scores for."""
_OF_RANK: Final = re.compile(r"Dimension out of range|not enough values to unpack|number of sizes provided")
"""What is said of scores that are none, as each class has no place among their dimensions."""
_COMPARING: Final = frozenset({"cross_entropy", "nll_loss"})
"""What compares scores with classes."""
_OF_LANGUAGE: Final = re.compile(
    r"unexpected keyword argument '(?:input_ids|attention_mask|token_type_ids|inputs_embeds|return_dict|output_\w+)'"
    r"|has no attribute '(?:last_hidden_state|pooler_output|hidden_states|(logits))'"
)
"""What is said of something that was called, or asked, as models of language are; the last one gives scores."""
_FORWARD: Final = re.compile(r"(\w+)\.forward\(\) ")
"""Whose forward is spoken of."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with a model that was built: what it raises when it is called.

    Attributes:
        error: The exception.
        words: The names in the code that it came through, and those that stand for the same in the constructors.
        sizes: The sizes that did not agree there, each with the one that was wanted instead.
        complaint: What it says, numbers apart, and where.
        reached: How far the model came: the more, the better its arguments.
    """

    error: BaseException
    words: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    complaint: str
    reached: float


class Refitting(Mending):
    """The ways to go on from arguments that were refused, or that made what does not run. Mutable.

    It remembers what was heard before.
    """

    def __init__(self, root: Group, proposals: Proposals) -> None:
        """Prepare to mend the arguments of a call.

        Args:
            root: The call.
            proposals: What its arguments may be.
        """
        super().__init__(root, proposals)
        self._heard = Counter[str]()

    def fitting(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with which what was built may run."""
        complaint = replace(complaint_of(misfit.error), words=misfit.words)
        # What a model calls while it runs it has been given as an object.
        complaint = replace(complaint, kind="callable" if complaint.kind == "class" else complaint.kind)
        blamed = self._blamed(choice, complaint)
        # What has been heard before may well be about something else.
        again = min(_AGAIN * self._heard[misfit.complaint], _MOST_AGAIN)
        self._heard[misfit.complaint] += 1
        for steps in (
            self._resized(choice, misfit.sizes, blamed),
            self._odd(choice, misfit, blamed),
            self._alike(choice, misfit),
            self._plainer(choice, misfit),
            self._halved(choice, misfit),
            self._switched(choice, misfit),
            self._longer(choice, misfit),
            self._as_looked_up(choice, complaint),
            self._normed(choice, misfit),
            self._of_language(choice, misfit, blamed),
            self._called(choice, misfit, blamed),
            self._scoring(choice, misfit),
            self._mended(choice, misfit.error, complaint),
        ):
            for step, changed in steps:
                yield step + again, changed

    def _longer(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with longer lists where one had no such item: those that have something for each layer."""
        lists = [path for path, value in choice.items() if path and is_list(value)]
        if not isinstance(misfit.error, IndexError) or len(lists) < 2:
            return
        of_layers = [each for each in lists if not _OF_SIDES.search(owner_of(each)[1])]
        for rank, several in enumerate([of_layers, lists]):
            for step, length in enumerate((4, 5, 3)):
                changed = dict(choice)
                for path in several:
                    changed = self._everywhere(changed, path, of_length(choice[path], length)[0])
                yield 0.3 + 0.3 * rank + 0.2 * step, changed

    def _as_looked_up(self, choice: Choice, complaint: Complaint) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with the name that a table has no entry for in place of one that was made up, everywhere."""
        made_up = [letter for letter in ascii_lowercase if letter in (complaint.owner or ())]
        for step, letter in enumerate(made_up[:2] if complaint.lacks else ()):
            changed = {
                path: value.replace(repr(letter), repr(complaint.lacks)) if isinstance(value, str) else value
                for path, value in choice.items()
            }
            if changed != choice:
                yield 0.3 + 0.3 * step, changed

    def _normed(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with another norm, where that which is made takes the last size and the first one was meant."""
        refused = _OF_NORM.search(text_of(misfit.error))
        if refused is None:
            return
        norm = f"torch.nn.BatchNorm{len(refused[1].split(',')) - 2}d"
        for path, value in choice.items():
            if isinstance(value, str) and LAYER_NORM in value and hasattr(nn, norm.rpartition(".")[2]):
                yield from self._changed(choice, path, value.replace(LAYER_NORM, norm), 0.05)

    def _called(self, choice: Choice, misfit: Misfit, blamed: list[str]) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with what can be called with any arguments where something else was called with some."""
        if not isinstance(misfit.error, TypeError) or not _CALLED.search(str(misfit.error)):
            return
        # What is taken out of a container has no name there, and the message has that of its class.
        called = _FORWARD.match(str(misfit.error))
        name = f"torch.nn.{called[1]}" if called else ""
        of_class = [each for each, value in choice.items() if name and isinstance(value, str) and name in value]
        if len(of_class) > 1:  # Where one hands on what it takes, the others will.
            changed = dict(choice)
            for path in of_class:
                results = self._proposals.slot(choice, path).use.results
                changed = self._everywhere(changed, path, next(to_call(choice[path], results), choice[path]))
            yield 0.4, changed
        for rank, path in enumerate(dict.fromkeys([*blamed, *of_class])):
            now = choice.get(path, "None")
            results = self._proposals.slot(choice, path).use.results
            if (
                isinstance(now, Group)
                and now.style in {"namespace", "module"}
                and joined(path, "forward") not in choice
            ):
                changed = self._with(choice, path, Group("module"))
                yield 0.5 + 0.2 * rank, {**changed, joined(path, "forward"): takes_any(results)}
            for value in to_call(now, results):
                yield from self._changed(choice, path, value, 0.5 + 0.2 * rank)

    def _of_language(
        self, choice: Choice, misfit: Misfit, blamed: list[str]
    ) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with a small model of language for what is called as one, where a library is there that has."""
        said = _OF_LANGUAGE.search(text_of(misfit.error)) if LIBRARY in sys.modules else None
        if said is None:
            return
        for rank, path in enumerate(blamed):
            if choice.get(path) in {Group("module"), READING} or is_stand_in(choice.get(path)):
                yield from self._changed(choice, path, SPEAKING if said[1] else READING, 0.2 + 0.2 * rank)

    def _scoring(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with what gives scores of classes for a module, where a loss has wanted classes beside them."""
        text = text_of(misfit.error)
        is_lacking = _OF_RANK.search(text) is not None and not _COMPARING.isdisjoint(misfit.words)
        if not is_lacking and not _OF_CLASSES.search(text):
            return
        for path, value in choice.items():
            if value == Group("module"):
                yield 0.2, {**choice, joined(path, "forward"): SCORES}
            for scores in scoring(value):
                yield from self._changed(choice, path, scores, 0.2)

    def _odd(self, choice: Choice, misfit: Misfit, blamed: list[str]) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with odd sides where sizes are off by one: a kernel that is even has no middle."""
        if not any(abs(got - wanted) == 1 for got, wanted in misfit.sizes):
            return
        for path in dict.fromkeys([*blamed, *(each for each in choice if each)]):
            for value in made_odd(choice.get(path, "")) if _OF_SIDES.search(owner_of(path)[1]) else ():
                yield from self._changed(choice, path, value, 0.15 if path in blamed else 0.35)

    def _alike(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices in which as much comes out as goes in, where sizes do not agree: so blocks have it mostly."""
        widths = {
            path: found
            for path, value in choice.items()
            if isinstance(value, str)
            and _OF_WIDTH.fullmatch(owner_of(path)[1])
            and type(found := literal(value)) is int
        }
        values = sorted({*widths.values()}, reverse=True)
        if misfit.sizes and len(values) > 1:
            for step, value in enumerate(values):
                yield 0.05 + 0.05 * step, {**choice, **dict.fromkeys(widths, repr(value))}

    def _plainer(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with one side where there were too many, and with steps of one where sizes do not agree."""
        if _DIMENSIONAL.search(text_of(misfit.error)):
            for path in (each for each in choice if _OF_SIDES.search(owner_of(each)[1])):
                for side in one_side(choice[path]):
                    yield from self._changed(choice, path, side, 0.2)
        steps = [each for each in choice if _OF_STEPS.fullmatch(owner_of(each)[1])] if misfit.sizes else []
        if any(fits("number", choice[each]) and choice[each] != "1" for each in steps):
            yield 0.4, {**choice, **dict.fromkeys(steps, "1")}

    def _halved(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with a gate in place of what stands in for a module, where half of a size was wanted."""
        for got, wanted in misfit.sizes:
            for path, value in choice.items() if got == 2 * wanted else ():
                for gate in halving(value, wanted):
                    yield from self._changed(choice, path, gate, 0.3)

    def _switched(self, choice: Choice, misfit: Misfit) -> Iterator[tuple[float, dict[str, Value]]]:
        """Yield choices with a flag the other way round where a size was twice what was wanted, or half: `double_z`.

        The flags are those of the classes that the code speaks of, which may be handed all that a mapping has.
        """
        if not any(got in {2 * wanted, wanted / 2} for got, wanted in misfit.sizes):
            return
        for cls in filter(None, map(self._proposals.model, misfit.words)):
            known = parameters_of(cls)
            flags = {name: each.default for name, each in known.items() if isinstance(each.default, bool)}
            for path, group in choice.items():
                fields = set(fields_in(choice, path))
                is_handed_on = isinstance(group, Group) and group.style == "mapping" and set() < fields <= known.keys()
                is_made = isinstance(group, Group) and group.cls is cls
                for name, default in flags.items() if is_made or is_handed_on else ():
                    yield (0.1 if _DOUBLING.search(name) else 0.4), {**choice, joined(path, name): repr(not default)}
