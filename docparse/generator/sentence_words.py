# ruff: noqa: E501 - a sentence a line
"""Sentences of running text, those with a value and those that only fill, by split."""

from __future__ import annotations

from docparse.generator.document import Split

# sentence with [value] | asked for as; ... | whole question; ... {topic}, {company} and the like are the same in all three.
STATED: dict[Split, str] = {
    "train": """
The budget for the {topic} amounts to [round_money] in total. | budget for the {topic} | How much money is set aside for the {topic}?; What does the {topic} cost?
Work on the {topic} began on [date] as agreed. | start date of the {topic} | When did work on the {topic} begin?; Since when has there been work on the {topic}?
The {topic} was led by [person] from the outset. | leader of the {topic} | Who led the {topic}?; Who was in charge of the {topic}?
{company} was asked to deliver [count] units by spring. | number of units {company} was asked to deliver | How many units was {company} asked to deliver?
A total of [big] people took part in the {topic} this year. | number of people who took part in the {topic} | How many people took part in the {topic}?; How large was the turnout for the {topic}?
The contract for the {topic} went to [company] after a tender. | company that got the contract for the {topic} | Who won the contract for the {topic}?; Which firm was chosen for the {topic}?
In {town}, costs rose by [percent] against the year before. | cost increase in {town} | By how much did costs rise in {town}?
The office in {town} moved to [street] last month. | new address of the office in {town} | Where did the office in {town} move to?; What is the new address in {town}?
{person} became head of [department] in the same year. | department headed by {person} | What did {person} become head of?; Which department does {person} head?
Results of the {topic} are expected by [date] at the latest. | date when results of the {topic} are expected | When are results of the {topic} expected?; By when will the {topic} have results?
The {topic} took [days] longer than planned. | delay of the {topic} | How much longer than planned did the {topic} take?; How late was the {topic}?
For the {topic}, a reserve of [round_money] was kept back. | reserve for the {topic} | Which reserve was kept back for the {topic}?
The store in {town} opens at [time] on weekdays. | opening time of the store in {town} | When does the store in {town} open on weekdays?
{company} has its seat in [town] since then. | seat of {company} | Where does {company} have its seat?; Where is {company} based?
The sample from {town} weighed [weight] before drying. | weight of the sample from {town} | How much did the sample from {town} weigh?; How heavy was the sample from {town}?
Questions about the {topic} are answered by [person] on request. | contact for questions about the {topic} | Who answers questions about the {topic}?
Tickets for the {topic} are sold at [money] per person. | ticket price for the {topic} | What does a ticket for the {topic} cost?
The next meeting on the {topic} takes place on [date] in the main hall. | date of the next meeting on the {topic} | When is the next meeting on the {topic}?
According to {person}, the {topic} created [count] new jobs. | number of jobs created by the {topic} | How many jobs did the {topic} create?
The pump in {town} moves [volume] every hour. | output of the pump in {town} | How much does the pump in {town} move every hour?
{company} was founded in [year] by two engineers. | founding year of {company} | When was {company} founded?; In what year did {company} start?
The track to {town} is [distance] long and well kept. | length of the track to {town} | How long is the track to {town}?
During the test in {town}, the oven reached [temperature] within an hour. | temperature reached in {town} | How hot did the oven in {town} get?; Which temperature was reached in {town}?
The warranty of {company} covers [days] from delivery. | warranty of {company} | How long is the warranty of {company}?
Repairs in {town} are carried out by [company] alone. | company that carries out repairs in {town} | Who carries out repairs in {town}?
The fine for late returns to {company} is [money] a day. | fine for late returns to {company} | What is charged for late returns to {company}?
Only [percent] of those asked about the {topic} were in favour. | share in favour of the {topic} | What share was in favour of the {topic}?; How many per cent supported the {topic}?
The application for the {topic} is kept under [id:@@-#####] in the archive. | file number of the {topic} | Under which number is the {topic} kept?
{person} works as a [job] for the city. | profession of {person} | What does {person} work as?; What is {person} by profession?
Parcels to {town} are sent by [carrier] as a rule. | way of sending parcels to {town} | How are parcels sent to {town}?
The licence for the {topic} runs until [date] and can be renewed. | end of the licence for the {topic} | Until when does the licence for the {topic} run?; When does the licence for the {topic} expire?
At {company}, [count] workers were trained last year. | number of workers trained at {company} | How many workers were trained at {company}?
The hall in {town} has a floor of [area] and two gates. | floor area of the hall in {town} | How large is the hall in {town}?
Invoices of {company} are due within [days] of receipt. | payment period of {company} | Within what time are invoices of {company} due?
The keys to the building in {town} are held by [person] at the gate. | holder of the keys in {town} | Who holds the keys to the building in {town}?
Complaints about the {topic} should be sent to [email] in writing. | address for complaints about the {topic} | Where should complaints about the {topic} be sent?
The helpline of {company} can be reached under [phone] at all hours. | helpline of {company} | Under what number is the helpline of {company}?; Which number reaches {company}?
The loan for the {topic} bears interest of [percent] a year. | interest on the loan for the {topic} | What interest does the loan for the {topic} bear?
The ferry to {town} leaves at [time] sharp. | departure time of the ferry to {town} | When does the ferry to {town} leave?
{company} sells its goods mainly to [country] at present. | main market of {company} | To which country does {company} mainly sell?
""",
    "held_out": """
Spending on the {topic} reached [round_money] by the end of the period. | spending on the {topic} | How much was spent on the {topic}?; What had the {topic} cost by the end?
The {topic} was completed on [date] without incident. | completion date of the {topic} | When was the {topic} completed?; On what day was the {topic} finished?
Responsibility for the {topic} lies with [person] until further notice. | person responsible for the {topic} | Who is responsible for the {topic}?
{company} employs [big] people at present. | number of people employed by {company} | How many people does {company} employ?; How large is the staff of {company}?
In {town}, the share of renewals fell to [percent] during the quarter. | share of renewals in {town} | To what share did renewals fall in {town}?
Equipment for the {topic} was bought from [company] at a discount. | supplier of equipment for the {topic} | From whom was equipment for the {topic} bought?; Who sold the equipment for the {topic}?
Visitors to {town} park at [street] free of charge. | parking place for visitors to {town} | Where do visitors to {town} park?
The permit for the {topic} expires on [date] unless renewed. | expiry date of the permit for the {topic} | When does the permit for the {topic} expire?
The tank in {town} holds [volume] when full. | capacity of the tank in {town} | How much does the tank in {town} hold?
{person} reports to [person] for the time being. | superior of {person} | To whom does {person} report?
The budget for the {topic} amounts to [round_money] in total. | budget for the {topic} | How much money is set aside for the {topic}?
Entry to the {topic} costs [money] for adults. | entry fee of the {topic} | What do adults pay for entry to the {topic}?
The bus from {town} arrives at [time] each morning. | arrival time of the bus from {town} | When does the bus from {town} arrive?
{company} keeps its records under [id:@#-####] since the merger. | record number of {company} | Under which number does {company} keep its records?
Guarantees given by {company} last [days] and no longer. | duration of guarantees by {company} | How long do guarantees by {company} last?
The tower in {town} is [length] high. | height of the tower in {town} | How high is the tower in {town}?
Since the {topic}, {person} has been a [job] by trade. | trade of {person} | What is the trade of {person}?
Orders from {town} go out by [carrier] without exception. | dispatch of orders from {town} | By what means do orders from {town} go out?
A survey on the {topic} was answered by [big] households. | number of households in the survey on the {topic} | How many households answered the survey on the {topic}?
Write to [email] to join the {topic}. | address for joining the {topic} | Where does one write to join the {topic}?
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
        "If the {n} {verb} the {n2}, the {q} {n3} must be informed.",
        "Please note that the {q} {n} {verb} neither the {n2} nor the {n3}.",
        "There are several reasons why the {n} {verb} a {q} {n2}.",
        "Together with the {n}, the {q} {n2} {verb} the {n3} in many cases.",
        "After the {n}, nothing of the {q} {n2} was left to the {n3}.",
        "You will find the {q} {n} together with the {n2} in the annex.",
    ),
    "held_out": (
        "As before, a {q} {n} {verb} the {n2}.",
        "The {n} and the {n2} {adverb} form one {q} {n3}.",
        "It is the {q} {n} that {adverb} {verb} the {n2}.",
        "Where a {n} is missing, the {q} {n2} {verb} it.",
        "Both the {n} and the {q} {n2} remain as they are.",
        "In view of the {n}, one {q} {n2} is enough for the {n3}.",
        "Nobody doubts that the {q} {n} {verb} the {n2}.",
    ),
}
