# ruff: noqa: E501 - a sentence a line
"""Sentences of running text, those with a value and those that only fill, by split."""

from __future__ import annotations

from docparse.generator.document import Split

# sentence with [value] | asked for as | whole question. {topic}, {company} ... are the same in all three.
STATED: dict[Split, str] = {
    "train": """
The budget for the {topic} amounts to [round_money] in total. | budget for the {topic} | How much money is set aside for the {topic}?
Work on the {topic} began on [date] as agreed. | start date of the {topic} | When did work on the {topic} begin?
The {topic} was led by [person] from the outset. | leader of the {topic} | Who led the {topic}?
{company} was asked to deliver [count] units by spring. | number of units {company} was asked to deliver | How many units was {company} asked to deliver?
A total of [big] people took part in the {topic} this year. | number of people who took part in the {topic} | How many people took part in the {topic}?
The contract for the {topic} went to [company] after a tender. | company that got the contract for the {topic} | Who won the contract for the {topic}?
In {town}, costs rose by [percent] against the year before. | cost increase in {town} | By how much did costs rise in {town}?
The office in {town} moved to [street] last month. | new address of the office in {town} | Where did the office in {town} move to?
{person} became head of [department] in the same year. | department headed by {person} | What did {person} become head of?
Results of the {topic} are expected by [date] at the latest. | date when results of the {topic} are expected | When are results of the {topic} expected?
The {topic} took [days] longer than planned. | delay of the {topic} | How much longer than planned did the {topic} take?
For the {topic}, a reserve of [round_money] was kept back. | reserve for the {topic} | Which reserve was kept back for the {topic}?
The store in {town} opens at [time] on weekdays. | opening time of the store in {town} | When does the store in {town} open on weekdays?
{company} has its seat in [town] since then. | seat of {company} | Where does {company} have its seat?
The sample from {town} weighed [weight] before drying. | weight of the sample from {town} | How much did the sample from {town} weigh?
Questions about the {topic} are answered by [person] on request. | contact for questions about the {topic} | Who answers questions about the {topic}?
Tickets for the {topic} are sold at [money] per person. | ticket price for the {topic} | What does a ticket for the {topic} cost?
The next meeting on the {topic} takes place on [date] in the main hall. | date of the next meeting on the {topic} | When is the next meeting on the {topic}?
""",
    "held_out": """
Spending on the {topic} reached [round_money] by the end of the period. | spending on the {topic} | How much was spent on the {topic}?
The {topic} was completed on [date] without incident. | completion date of the {topic} | When was the {topic} completed?
Responsibility for the {topic} lies with [person] until further notice. | person responsible for the {topic} | Who is responsible for the {topic}?
{company} employs [big] people at present. | number of people employed by {company} | How many people does {company} employ?
In {town}, the share of renewals fell to [percent] during the quarter. | share of renewals in {town} | To what share did renewals fall in {town}?
Equipment for the {topic} was bought from [company] at a discount. | supplier of equipment for the {topic} | From whom was equipment for the {topic} bought?
Visitors to {town} park at [street] free of charge. | parking place for visitors to {town} | Where do visitors to {town} park?
The permit for the {topic} expires on [date] unless renewed. | expiry date of the permit for the {topic} | When does the permit for the {topic} expire?
The tank in {town} holds [volume] when full. | capacity of the tank in {town} | How much does the tank in {town} hold?
{person} reports to [person] for the time being. | superior of {person} | To whom does {person} report?
The budget for the {topic} amounts to [round_money] in total. | budget for the {topic} | How much money is set aside for the {topic}?
""",
}
FILLING: dict[Split, tuple[str, ...]] = {
    "train": (
        "The {q} {n} {verb} the {n2} of the {n3}.",
        "At the same time, the {n} {adverb} {verb} each {q} {n2}.",
        "Every {n} in the {n2} {verb} a {q} {n3}.",
        "This {adverb} {verb} the {n} and its {q} {n2}.",
        "No {n} was needed, since the {q} {n2} {verb} the {n3}.",
        "We thank you for the {q} {n} and the {n2}.",
        "Further details of the {n} follow in the {q} {n2}.",
        "A {q} {n} was sent to the {n2} for the {n3}.",
    ),
    "held_out": (
        "As before, a {q} {n} {verb} the {n2}.",
        "The {n} and the {n2} {adverb} form one {q} {n3}.",
        "It is the {q} {n} that {adverb} {verb} the {n2}.",
        "Where a {n} is missing, the {q} {n2} {verb} it.",
        "Both the {n} and the {q} {n2} remain as they are.",
    ),
}
