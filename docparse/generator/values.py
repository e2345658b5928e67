"""Typed values as documents print them: dates, money, numbers, names, addresses; all drawn from one generator."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from numpy.random import Generator

from docparse.generator import vocabulary as v
from docparse.generator.document import Split

T = TypeVar("T")
DATE_FORMATS: dict[Split, tuple[str, ...]] = {
    "train": ("{d} {month} {y}", "{dd}.{mm}.{y}", "{dd}/{mm}/{y}", "{mon} {d}, {y}", "{y}-{mm}-{dd}", "{mm}/{dd}/{y}"),
    "held_out": ("{month} {d}, {y}", "{dd}-{mon}-{y}", "{d}.{m}.{y}", "{y}/{mm}/{dd}", "{dd}/{mm}/{y}"),
}
MONEY_FORMATS: dict[Split, tuple[str, ...]] = {
    "train": ("€{n}", "{n} EUR", "${n}", "USD {n}", "£{n}", "CHF {n}", "{n} €", "{n}"),
    "held_out": ("EUR {n}", "$ {n}", "{n} USD", "£{n}", "{n} SEK", "{n} €"),
}


def pick(rng: Generator, items: Sequence[T]) -> T:
    """One of the items, each as likely as any other."""
    return items[int(rng.integers(len(items)))]


def several(rng: Generator, items: Sequence[T], count: int) -> list[T]:
    """``count`` different places of ``items`` (all of them if there are fewer), in random order."""
    return [items[i] for i in rng.permutation(len(items))[:count].tolist()]


@dataclass
class Values:
    """Values in the formats of one document: one date format, one currency, one way to write thousands."""

    rng: Generator
    split: Split
    date_format: str
    money_format: str
    european: bool  # 1.234,50 rather than 1,234.50

    @classmethod
    def drawn(cls, rng: Generator, split: Split) -> Values:
        """The formats of a new document."""
        return cls(
            rng, split, pick(rng, DATE_FORMATS[split]), pick(rng, MONEY_FORMATS[split]), bool(rng.random() < 0.25)
        )

    def make(self, kind: str) -> str:
        """A value of the kind; ``id:PATTERN`` fills # with digits and @ with capital letters."""
        if kind.startswith("id:"):
            return self.code(kind[3:])
        return _MAKERS[kind](self)

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high."""
        return int(self.rng.integers(low, high + 1))

    def number(self, value: float, decimals: int = 0) -> str:
        """A number with its thousands marked as in this document."""
        text = f"{value:,.{decimals}f}"
        return text.translate(str.maketrans(",.", ".,")) if self.european else text

    def money(self, value: float, decimals: int = 2) -> str:
        """An amount in this document's currency."""
        return self.money_format.format(n=self.number(value, decimals))

    def currency(self) -> str:
        """This document's currency sign or code, empty where amounts are bare."""
        return self.money_format.format(n="").strip()

    def day(self) -> datetime.date:
        """A day between 2008 and 2027."""
        return datetime.date(2008, 1, 1) + datetime.timedelta(days=self.whole(0, 7300))

    def date(self, day: datetime.date | None = None) -> str:
        """A date in this document's format."""
        day = self.day() if day is None else day
        month = v.MONTHS[day.month - 1]
        return self.date_format.format(
            d=day.day, dd=f"{day.day:02}", m=day.month, mm=f"{day.month:02}", mon=month[:3], month=month, y=day.year
        )

    def code(self, pattern: str) -> str:
        """A reference number."""
        digits, letters = "0123456789", "ABCDEFGHJKLMNPRSTUVWXYZ"
        return "".join(
            pick(self.rng, digits) if c == "#" else pick(self.rng, letters) if c == "@" else c for c in pattern
        )

    def surname(self) -> str:
        """An invented family name."""
        return pick(self.rng, v.NAME_STARTS) + pick(self.rng, v.NAME_ENDS)

    def person(self) -> str:
        """First and family name, now and then with a title or initial."""
        first, last = pick(self.rng, v.FIRST_NAMES), self.surname()
        form = self.rng.random()
        if form < 0.08:
            return f"Dr. {first} {last}"
        return f"{first} {pick(self.rng, 'ABCDEHJKLMPRST')}. {last}" if form < 0.2 else f"{first} {last}"

    def company(self) -> str:
        """An invented company."""
        core = pick(self.rng, v.COMPANY_CORES)
        end = pick(self.rng, v.COMPANY_ENDS)
        name = self.surname() if self.rng.random() < 0.7 else self.town()
        return f"{name} {core} {end}" if self.rng.random() < 0.75 else f"{name} & {self.surname()} {end}"

    def town(self) -> str:
        """An invented town."""
        return pick(self.rng, v.NAME_STARTS) + pick(self.rng, v.TOWN_ENDS)

    def street(self) -> str:
        """A street with house number, the number first or last."""
        kinds = v.STREET_KINDS if self.split == "train" else v.HELD_STREET_KINDS
        name = pick(self.rng, v.STREETS) if self.rng.random() < 0.6 else self.surname()
        number = self.whole(1, 240)
        return f"{number} {name} {pick(self.rng, kinds)}" if self.rng.random() < 0.7 else f"{name}strasse {number}"

    def address(self, name: str | None = None, lines: int | None = None) -> tuple[str, ...]:
        """The lines of an address: name, perhaps a department or floor, street, town, perhaps the country."""
        out = [name or (self.company() if self.rng.random() < 0.6 else self.person())]
        if self.rng.random() < 0.25:
            out.append(pick(self.rng, v.DEPARTMENTS) + " Department" if self.rng.random() < 0.6 else "2nd Floor")
        out.append(self.street())
        place = self.town()
        code = self.code(pick(self.rng, ("#####", "#### @@", "@@# #@@", "@-####")))
        out.append(f"{code} {place}" if self.rng.random() < 0.6 else f"{place} {code}")
        if self.rng.random() < 0.5:
            out.append(pick(self.rng, v.COUNTRIES))
        return tuple(out)

    def product(self) -> str:
        """A thing that is sold."""
        if self.rng.random() < 0.2:
            return pick(self.rng, v.SERVICES).capitalize()
        return f"{pick(self.rng, v.ADJECTIVES).capitalize()} {pick(self.rng, v.PRODUCTS)}"

    def phone(self) -> str:
        """A telephone number."""
        return self.code(pick(self.rng, ("+## ### #######", "(0###) ######", "0##-###-####", "+## ## ### ## ##")))

    def email(self) -> str:
        """An e-mail address."""
        box = pick(
            self.rng, ("info", "office", "billing", pick(self.rng, v.FIRST_NAMES).lower() + "." + self.surname())
        )
        return f"{box.lower()}@{self.surname().lower()}.{pick(self.rng, ('com', 'org', 'net', 'eu', 'example'))}"


def _measure(values: Values) -> str:
    unit = pick(values.rng, ("kg", "mm", "cm", "m", "l", "km", "kW", "V", "bar", "ml", "g", "t", "°C"))
    return f"{values.number(values.rng.uniform(1, 900), values.whole(0, 1))} {unit}"


_MAKERS: dict[str, Callable[[Values], str]] = {
    "date": lambda v_: v_.date(),
    "money": lambda v_: v_.money(float(10 ** v_.rng.uniform(1, 5.5))),
    "round_money": lambda v_: v_.money(v_.whole(1, 400) * 500, 0),
    "count": lambda v_: v_.number(v_.whole(2, 900)),
    "big": lambda v_: v_.number(v_.whole(1000, 90000)),
    "percent": lambda v_: f"{v_.number(float(v_.rng.uniform(0.5, 99)), v_.whole(0, 1))} %",
    "measure": _measure,
    "person": lambda v_: v_.person(),
    "company": lambda v_: v_.company(),
    "town": lambda v_: v_.town(),
    "street": lambda v_: v_.street(),
    "country": lambda v_: pick(v_.rng, v.COUNTRIES),
    "phone": lambda v_: v_.phone(),
    "email": lambda v_: v_.email(),
    "website": lambda v_: f"www.{v_.surname().lower()}.{pick(v_.rng, ('com', 'org', 'eu', 'net'))}",
    "iban": lambda v_: v_.code(pick(v_.rng, ("@@## #### #### #### ##", "@@## #### #### #### #### ##"))),
    "time": lambda v_: f"{v_.whole(6, 20):02}:{pick(v_.rng, ('00', '15', '30', '45'))}",
    "product": lambda v_: v_.product(),
    "job": lambda v_: pick(v_.rng, v.JOBS),
    "department": lambda v_: pick(v_.rng, v.DEPARTMENTS),
    "terms": lambda v_: pick(v_.rng, v.TERMS),
    "method": lambda v_: pick(v_.rng, v.METHODS),
    "carrier": lambda v_: pick(v_.rng, v.CARRIERS),
    "nationality": lambda v_: pick(v_.rng, v.NATIONALITIES),
    "colour": lambda v_: pick(v_.rng, v.COLOURS),
    "school": lambda v_: pick(v_.rng, v.SCHOOLS),
    "choice": lambda v_: pick(v_.rng, v.STATES),
    "marital": lambda v_: pick(v_.rng, v.MARITAL),
    "weight": lambda v_: f"{v_.number(v_.rng.uniform(1, 900), v_.whole(0, 1))} {pick(v_.rng, ('kg', 'g', 't', 'mg'))}",
    "length": lambda v_: f"{v_.number(v_.rng.uniform(1, 900), v_.whole(0, 1))} {pick(v_.rng, ('mm', 'cm', 'm', 'in'))}",
    "distance": lambda v_: f"{v_.number(v_.rng.uniform(1, 400), v_.whole(0, 1))} km",
    "temperature": lambda v_: f"{v_.number(v_.rng.uniform(2, 240), v_.whole(0, 1))} °C",
    "pressure": lambda v_: f"{v_.number(v_.rng.uniform(0.5, 250), 1)} {pick(v_.rng, ('bar', 'kPa', 'psi'))}",
    "voltage": lambda v_: f"{v_.whole(3, 480)} {pick(v_.rng, ('V', 'kV'))}",
    "area": lambda v_: f"{v_.number(v_.rng.uniform(8, 4000), v_.whole(0, 1))} sq m",
    "volume": lambda v_: f"{v_.number(v_.rng.uniform(1, 9000), v_.whole(0, 1))} {pick(v_.rng, ('l', 'ml', 'litres'))}",
    "birthday": lambda v_: v_.date(datetime.date(1940, 1, 1) + datetime.timedelta(days=v_.whole(0, 23000))),
    "topic": lambda v_: pick(v_.rng, v.TOPICS),
    "weekday": lambda v_: pick(v_.rng, v.WEEKDAYS),
    "year": lambda v_: str(v_.whole(1950, 2026)),
    "days": lambda v_: f"{v_.whole(2, 90)} {pick(v_.rng, ('days', 'weeks', 'months', 'hours'))}",
}
