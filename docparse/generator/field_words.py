# ruff: noqa: E501 - a field a line
"""The wordings that fields are made of: known fields as a table, and the words of composed ones."""

from __future__ import annotations

# key | kind | labels / held-out labels | asked for as / held-out | whole questions / held-out
KNOWN_FIELDS = {
    "invoice": """
invoice_number | id:INV-##### | Invoice No.; Invoice Number; Invoice # / Inv. No.; Our invoice | invoice number; number of this invoice / invoice's reference number | Which number does the invoice have? / How is the invoice numbered?
invoice_date | date | Invoice Date; Date of issue; Date / Issued on; Invoice dated | invoice date; date of the invoice; issue date / day the invoice was issued | When was the invoice issued?; What is the date of the invoice? / On which day was the invoice written?
due_date | date | Due Date; Payment due; Pay by / Payable until; Please pay before | due date; payment deadline / last day for payment | When is the payment due?; By when must it be paid? / Until when can one pay?
delivery_date | date | Delivery Date; Date of delivery; Shipped / Date of supply; Goods delivered | delivery date; date of delivery / day of supply | When was it delivered?; When were the goods delivered? / On which day were the goods supplied?
order_number | id:PO-###### | Order No.; Purchase Order; PO Number; Your order / Customer order; P.O. | order number; purchase order number / number of the customer's order | Which purchase order does it refer to? / To which order does it belong?
customer_number | id:###### | Customer No.; Client ID; Account No. / Customer ref.; Debtor no. | customer number; client number / number of the customer | /
vat_id | id:@@######### | VAT ID; VAT Reg. No.; Tax ID / VAT registration; USt-IdNr. | VAT number; tax identification number / VAT registration number | /
contact | person | Contact; Your contact; Contact person; Clerk / Handled by; Attn. | contact person; name of the contact / person in charge | Who is the contact person?; Who can be asked about this invoice? / Who handles this matter?
terms | terms | Terms; Payment terms; Terms of payment / Conditions of payment; Settlement | payment terms; terms of payment / conditions of payment | What are the terms of payment? / How is it to be settled?
method | method | Payment method; Paid by; Method of payment / Mode of payment; Pay via | payment method; method of payment / way of paying | How is it paid? / In which way is it paid?
iban | iban | IBAN; Bank account; Account / Acct. (IBAN); Pay to account | IBAN; bank account number / account to pay to | To which bank account must be paid? / Where should the money be sent?
bank | company | Bank; Bank name / Banking house; Credit institution | bank; name of the bank / credit institution | Which bank is used? / At which bank is the account?
bic | id:@@@@@@## | BIC; SWIFT; BIC/SWIFT / Swift code; Bank code | BIC; SWIFT code / bank identifier code | /
carrier | carrier | Shipped via; Delivery method; Shipping / Carrier; Dispatch | delivery method; way of shipping / mode of dispatch | How were the goods shipped? / By what means were the goods sent?
project | topic | Project; Job; Re / Project name; Matter | project; name of the project / matter concerned | Which project is it for? / What project does it concern?
salesperson | person | Salesperson; Sales rep; Seller / Account manager; Sold by | salesperson; sales representative / seller | Who made the sale?; Who is the sales representative? / Who sold the goods?
phone | phone | Phone; Tel.; Telephone / Call us; Ph. | phone number; telephone number / number to call | Which number can one call? / On what number can they be reached?
email | email | E-mail; Email; Mail / E-mail address; Write to | e-mail address; email / electronic mail address | Where can one write an e-mail to? / To which address do e-mails go?
delivery_note | id:DN#### | Delivery note; Delivery Note No. / Packing slip; Waybill | delivery note number; delivery note / number of the packing slip | /
""",
    "form": """
full_name | person | Name; Full name; Name of applicant; Surname, first name / Applicant; Name in full | name of the applicant; full name; applicant's name / name given | Who is the applicant?; What is the applicant called? / Who filled in the form?
birth_date | birthday | Date of birth; Born; Birth date / DOB; Born on | date of birth; birth date; birthday / day of birth | When was the person born? / On what day was the person born?
birth_place | town | Place of birth; Birthplace / Born in; Town of birth | place of birth; birthplace / town of birth | Where was the person born? / In which town was the person born?
nationality | nationality | Nationality; Citizenship / Citizen of; National status | nationality; citizenship / national status | What is the person's nationality? / Which citizenship does the person have?
marital | marital | Marital status; Family status / Civil status | marital status; family status / civil status | /
street | street | Street; Address; Street and no. / Home address; Residence | street; street address; home address / residence | Where does the person live?; In which street is the home? / What is the place of residence?
town | town | Town; City; Town or city / Place; Municipality | town; city of residence / municipality | Which town does the person live in? / In what city is the residence?
postcode | id:##### | Postcode; ZIP; Postal code / Zip / Post code | postcode; ZIP code; postal code / code of the town | /
phone | phone | Phone; Telephone; Mobile; Tel. / Contact number; Daytime phone | phone number; telephone number; mobile number / contact number | Under which number can the person be reached? / How can one phone the person?
email | email | E-mail; Email address; E-mail address / Electronic mail | e-mail address; email / electronic mail address | /
occupation | job | Occupation; Profession; Job title / Employed as; Position held | occupation; profession; job / position held | What does the person work as?; What is the job of the applicant? / What is the person's line of work?
employer | company | Employer; Company; Name of employer / Employed by; Workplace | employer; name of the company / workplace | Who is the employer?; Where does the person work? / Which firm does the person work for?
income | round_money | Annual income; Yearly salary; Gross income / Income p.a.; Annual earnings | annual income; yearly salary / annual earnings | How much does the person earn? / What does the person earn in a year?
school | school | Education; School attended; Highest education / Schooling; Qualification | education; school attended / schooling | Which school did the person attend? / What schooling does the person have?
passport | id:@####### | Passport No.; ID No.; ID card number / Document no.; Identity no. | passport number; ID number / number of the identity document | /
emergency | person | Emergency contact; In case of emergency / Person to notify; Next of kin | emergency contact; person to call in an emergency / next of kin | Who should be called in an emergency? / Who is to be notified?
reason | topic | Reason; Purpose; Reason for application / Object of the request; Grounds | reason for the application; purpose / grounds | Why was the application made?; What is it for? / What is the object of the request?
start_date | date | Start date; From; Valid from / Begins on; Commencement | start date; first day / day of commencement | When does it start?; From when on is it valid? / On which date does it begin?
end_date | date | End date; Until; Valid until / Ends on; Expiry | end date; last day; expiry date / day of expiry | When does it end?; Until when is it valid? / On which date does it expire?
amount | money | Amount; Sum; Amount requested / Sum applied for; Total claimed | amount requested; sum / amount claimed | How much money is requested? / What sum is applied for?
vehicle | id:@@ @@ #### | Registration; Vehicle reg.; Licence plate / Reg. mark; Plate no. | licence plate; vehicle registration / registration mark | /
colour | colour | Colour; Paint / Finish | colour; paint colour / finish | What colour is it? / Which paint does it have?
policy | id:POL-####-#### | Policy No.; Insurance no.; Policy number / Contract no.; Cover note | policy number; insurance number / number of the insurance contract | /
tax_number | id:##/###/##### | Tax No.; Tax number; TIN / Fiscal code; Tax reference | tax number / fiscal code | /
children | count | Children; No. of children / Dependants | number of children / number of dependants | How many children are there? / How many dependants does the person have?
signed_on | date | Date; Signed on; Date of signature / Dated; Place, date | date of the signature; signing date / day of signing | When was it signed? / On which day was the form signed?
approved_by | person | Approved by; Authorised by; Checked by / Cleared by; Officer | approver; name of the person who approved / officer in charge | Who approved it?; Who checked the form? / Who gave clearance?
department | department | Department; Dept.; Unit / Section; Division | department; unit / division | Which department is it? / To what division does it belong?
""",
    "letter": """
reference | id:@@/####/## | Our ref.; Reference; Ref. / Our sign; File no. | reference; our reference / file number | /
your_reference | id:@@-### | Your ref.; Your reference / Your sign; Your file | your reference / reference of the recipient | /
letter_date | date | Date; Date of letter / Dated; Letter of | date of the letter; letter's date / day the letter was written | When was the letter written?; What is the date of the letter? / On which day was the letter sent?
contact | person | Contact; Handled by; Your contact / Clerk; In charge | contact person; person who handles it / clerk in charge | Who is the contact?; Who handles the matter? / Who is in charge of it?
phone | phone | Phone; Tel.; Direct line / Ph.; Extension | phone number; direct line / number to call | Which number can one call? / On what number can they be reached?
fax | phone | Fax; Telefax / Facsimile | fax number / facsimile number | /
email | email | E-mail; Email / Mail | e-mail address; email / electronic mail address | /
website | website | Web; Internet / Homepage; Online | website; web address / homepage | What is the website? / Where are they on the web?
""",
}

# noun = synonyms, by kind of value; the modifiers that go with it
NOUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "date": (
        ("date=day", "deadline=latest date", "appointment=meeting date"),
        (
            "delivery",
            "inspection",
            "approval",
            "expiry",
            "start",
            "completion",
            "closing",
            "review",
            "registration",
            "departure",
            "arrival",
            "renewal",
            "publication",
            "hearing",
            "test",
            "audit",
            "installation",
            "return",
        ),
    ),
    "money": (
        (
            "amount=sum",
            "cost=costs",
            "fee=charge",
            "price=charge",
            "budget=funds",
            "deposit=security paid",
            "rent=rental",
        ),
        (
            "total",
            "monthly",
            "annual",
            "estimated",
            "insured",
            "remaining",
            "approved",
            "minimum",
            "weekly",
            "repair",
            "transport",
            "membership",
            "net",
            "gross",
            "initial",
            "final",
            "planned",
            "extra",
        ),
    ),
    "person": (
        (
            "supervisor=superior",
            "manager=head",
            "doctor=physician",
            "witness=person who witnessed",
            "owner=holder",
            "author=writer",
            "inspector=examiner",
            "driver=person driving",
            "technician=engineer",
            "guardian=custodian",
        ),
        (
            "previous",
            "responsible",
            "second",
            "assigned",
            "deputy",
            "former",
            "registered",
            "acting",
            "site",
            "shift",
            "chief",
            "legal",
            "senior",
            "local",
        ),
    ),
    "count": (
        (
            "pages=sheets",
            "rooms=number of rooms",
            "employees=staff",
            "copies=number of copies",
            "seats=places",
            "units=pieces",
            "visits=number of visits",
            "samples=number of samples",
            "floors=storeys",
            "attempts=tries",
        ),
        ("total", "available", "planned", "sold", "tested", "additional", "remaining", "damaged", "used", "ordered"),
    ),
    "measure": (
        (
            "weight=mass@weight",
            "length=extent@length",
            "height=tallness@length",
            "width=breadth@length",
            "capacity=volume@volume",
            "temperature=degrees@temperature",
            "pressure=bar reading@pressure",
            "voltage=volts@voltage",
            "distance=way to go@distance",
            "thickness=gauge@length",
        ),
        (
            "maximum",
            "minimum",
            "net",
            "gross",
            "operating",
            "measured",
            "permitted",
            "average",
            "external",
            "internal",
            "nominal",
            "ambient",
            "shipping",
        ),
    ),
    "percent": (
        (
            "rate=percentage",
            "share=proportion",
            "discount=reduction",
            "humidity=moisture",
            "margin=spread",
            "efficiency=performance",
            "attendance=presence",
        ),
        ("tax", "interest", "average", "relative", "current", "expected", "annual", "agreed", "standard", "reduced"),
    ),
    "id:@@-####": (
        ("number=no.", "code=identifier", "reference=ref", "serial number=S/N", "certificate=certificate number"),
        (
            "batch",
            "claim",
            "file",
            "membership",
            "case",
            "licence",
            "article",
            "drawing",
            "contract",
            "tracking",
            "patient",
            "machine",
            "asset",
            "ticket",
            "booking",
            "permit",
            "employee",
            "part",
            "security",
        ),
    ),
    "time": (
        ("time=hour", "closing time=time of closing", "opening time=time of opening"),
        ("start", "arrival", "departure", "lunch", "check-in", "check-out", "meeting", "collection"),
    ),
    "town": (
        (
            "location=place",
            "station=stop",
            "port=harbour",
            "office=branch",
            "destination=where it goes",
            "site=premises",
        ),
        ("loading", "final", "main", "storage", "meeting", "regional", "previous", "delivery", "home", "business"),
    ),
    "company": (
        (
            "supplier=vendor",
            "insurer=insurance company",
            "contractor=firm doing the work",
            "manufacturer=maker",
            "client=customer",
            "landlord=lessor",
            "agency=agent",
            "laboratory=lab",
        ),
        ("main", "current", "previous", "selected", "external", "approved", "local", "second", "health", "original"),
    ),
    "choice": (
        ("status=state", "decision=outcome", "priority=urgency", "employment=kind of work", "result=finding"),
        ("current", "final", "application", "membership", "test", "approval", "repair", "overall"),
    ),
    "days": (
        ("period=time", "duration=length of time", "notice=notice period", "warranty=guarantee", "delay=lateness"),
        ("trial", "rental", "delivery", "cancellation", "treatment", "training", "storage", "processing", "payment"),
    ),
}
MODIFIER_SYNONYMS = {
    "estimated": "expected", "previous": "former", "total": "overall", "annual": "yearly", "additional": "extra",
    "initial": "first", "final": "last", "maximum": "highest", "minimum": "lowest", "average": "mean", "main": "principal",
    "approved": "agreed", "current": "present", "remaining": "outstanding", "responsible": "in-charge", "planned": "intended",
}  # fmt: skip
HELD_WORDS = ("appointment", "rent", "guardian", "attempts", "thickness", "attendance", "certificate", "port", "laboratory",
               "priority", "delay", "hearing", "weekly", "chief", "shipping", "reduced", "permit", "collection", "health")  # fmt: skip
