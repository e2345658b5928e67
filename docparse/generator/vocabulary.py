"""Word lists that documents are filled from. Names are invented from parts; none means a real company or person."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(",") if part.strip())


FIRST_NAMES = _words(
    """Anna Bilal Carla Daniel Elena Farid Greta Hugo Ines Jonas Katya Lars Mina Nils Olga Pedro Quentin Rosa Samir Tara
    Ulrich Vera Walter Ximena Yusuf Zoe Aiko Bruno Chloe Dmitri Emma Felix Gina Henrik Irene Jamal Kira Leon Marta Noah
    Oscar Paula Ravi Sofia Tomas Uma Victor Wendy Yara Zeno Adam Beth Cyril Diana Edgar Flora Gavin Heidi Ivan Julia
    Kofi Linda Milan Nora Owen Petra Rafael Sigrid Theo Ursula Vikram Wanda Amina Boris Celine Derek Esther Frank Gloria
    Harald Ida Jasper Kamal Lucia Magnus Nadia Otto Priya Robin Stella Tariq Viola William Xavier Yvonne Arthur"""
)
NAME_STARTS = _words(
    """Al Ar Bar Ber Bor Bran Cal Car Dal Den Dor El Fal Fen Fos Gar Gil Gran Har Hol Hart Jan Kal Kas Kel Lan Lar Lin
    Lor Mar Mel Mor Nor Ol Or Pal Par Pen Por Ran Ren Ros Sal San Sel Sor Stan Tal Tor Tran Val Var Ver Wal Wen Win Yar
    Zan Ash Brad Clay Drum Eck Finch Grev Hal Ker Lam Mont Nash Osb Pres Quin Row Shel Thorn Van West"""
)
NAME_ENDS = _words(
    """aby anov ante berg bert brook by comb croft dal den der dez don dorf elli enko er escu ett ez feld field ford
    gard
    go gren ham hardt heim hurst ic ini ing ins ko land ley lin lo lund man mann mayer mer mond more nell ner ni os ova
    rez ridge ric rin rup sen ser ski son stad stein strom ter ton tti vale vic ville walt well wick wood worth"""
)
TOWN_ENDS = _words(
    "ton ville burg ford field stadt mouth haven wick bridge port dale well ham by minster hausen au mont more bury"
)
STREETS = _words(
    """High Mill Station Church Park Garden River Market Castle School Oak Maple Chestnut Harbour Victoria King Queen
    Bridge Spring Forest Hill Lake North South Meadow Abbey Foundry Orchard Railway Willow Linden Canal Tower Copper"""
)
STREET_KINDS = _words("Street Road Avenue Lane Square Way Drive Court Place Row Terrace Crescent")
HELD_STREET_KINDS = _words("Boulevard Close Gardens Quay Parade Walk Street Road Avenue")
COUNTRIES = _lines(
    """Austria, Belgium, Brazil, Canada, Chile, Croatia, Czechia, Denmark, Egypt, Estonia, Finland, France, Germany,
    Ghana, Greece, Hungary, India, Ireland, Italy, Japan, Kenya, Latvia, Mexico, Morocco, Netherlands, New Zealand,
    Norway, Peru, Poland, Portugal, Romania, Singapore, Slovenia, South Africa, South Korea, Spain, Sweden,
    Switzerland, Turkey, United Kingdom, United States, Vietnam"""
)
COMPANY_CORES = _lines(
    """Logistics, Systems, Foods, Textiles, Optics, Energy, Instruments, Software, Pharma, Printing, Furniture,
    Engineering, Consulting, Trading, Chemicals, Motors, Packaging, Media, Robotics, Materials, Travel, Insurance,
    Builders, Ceramics, Electric, Farms, Freight, Glass, Interiors, Labs, Marine, Metals, Paper, Solar, Supplies, Tools,
    Water Services, Wood Products, Brewery, Bakery, Catering, Security, Cleaning Services, Architects, Analytics"""
)
COMPANY_ENDS = _lines("Ltd, GmbH, Inc., LLC, AG, S.A., plc, B.V., AB, Oy, SpA, Co., & Sons, Group, Partners, SARL")
ADJECTIVES = _words(
    """black blue brass ceramic compact copper cordless digital double electric flexible foldable glass green grey heavy
    hydraulic industrial insulated large leather light linen magnetic manual metal mobile oak orange plastic portable
    precision rechargeable red reinforced rubber silver small soft solid stainless standard steel thermal waterproof
    white wide wireless wooden woollen yellow adjustable"""
)
PRODUCTS = _lines(
    """desk lamp, office chair, filing cabinet, monitor arm, keyboard, printer cartridge, network cable, power adapter,
    battery pack, safety helmet, work gloves, drill bit set, hammer, torque wrench, ladder, toolbox, paint roller,
    wall bracket, door handle, hinge, bolt M8, washer set, hose, pump, valve, pressure gauge, filter, fan, heater,
    thermostat, sensor, relay, circuit breaker, fuse box, extension lead, light bulb, projector, screen, whiteboard,
    marker set, notebook, envelope box, paper ream, stapler, label roll, packing tape, pallet, carton, crate, trolley,
    coffee beans, tea bags, sugar, water bottle, paper cups, napkins, cleaning spray, towel, soap dispenser, mirror,
    blanket, pillow, curtain, carpet, table, bench, shelf, cupboard, mattress, bicycle, helmet, tent, rucksack, jacket,
    boots, shirt, cap, camera, tripod, microphone, headset, speaker, tablet, router, memory card, hard disk, charger,
    microscope, test tube rack, pipette, beaker, scale, thermometer, syringe, bandage, mask, wheelchair, stethoscope"""
)
SERVICES = _lines(
    """annual maintenance, site survey, installation, training day, consulting hours, software licence, translation,
    transport, storage, inspection, calibration, repair, cleaning, catering, printing, web hosting, technical support,
    design work, legal review, accounting, photography, advertising, waste removal, equipment hire, room hire"""
)
DEPARTMENTS = _lines(
    """Accounts, Administration, Customer Service, Engineering, Facilities, Finance, Human Resources, Information
    Technology, Legal, Logistics, Maintenance, Marketing, Operations, Planning, Procurement, Production, Public
    Relations, Quality, Research, Sales, Security, Training, Warehouse, Design, Compliance, Audit"""
)
JOBS = _lines(
    """accountant, analyst, architect, assistant manager, buyer, chemist, clerk, consultant, coordinator, driver,
    editor, electrician, engineer, estate agent, fitter, foreman, head of sales, inspector, lawyer, librarian, manager,
    mechanic, nurse, office manager, operator, pharmacist, planner, project manager, purchasing officer, receptionist,
    researcher, sales director, secretary, supervisor, surveyor, teacher, technician, translator, treasurer, welder"""
)
MONTHS = _words("January February March April May June July August September October November December")
WEEKDAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
TOPICS = _lines(
    """river survey, bridge inspection, harbour extension, school programme, water treatment plant, cycle network,
    museum wing, hospital laundry, wind farm, solar roof, tram line, library archive, market hall, flood barrier,
    recycling centre, staff canteen, data centre, apprentice scheme, forest path, heating network, call centre,
    parking garage, training workshop, laboratory move, website relaunch, fleet renewal, safety campaign, noise study,
    energy audit, rail depot, seed bank, air quality study, playground repair, pension fund, archive digitisation,
    quality audit, supplier review, customer survey, packaging redesign, warehouse move, roof repair, lift
    replacement"""
)
NOUNS = _words(
    """committee board council team department supplier contractor workshop report budget schedule result survey sample
    market region customer partner network building machine product service process review meeting plan target standard
    measure method group station line office programme unit site facility estimate forecast contract permit record"""
)
ADVERBS = _words("largely mostly clearly partly finally slowly steadily again initially generally gradually already")
VERBS = _lines(
    """supports, describes, follows, improves, replaces, affects, covers, limits, extends, explains, confirms,
    completes,
    requires, reduces, changes, tests, records, compares, includes, measures, prepares, shares, delays, serves"""
)
QUALITIES = _words(
    """new annual regional local final external internal joint early technical public central general detailed current
    revised second main recent open common special careful modest stable broad typical formal independent reliable"""
)
SUBJECTS = _lines(
    """delivery of goods, your application, change of address, missing invoice, contract renewal, meeting minutes,
    request for quotation, order confirmation, price adjustment, warranty claim, rental agreement, tax documents,
    site visit, insurance cover, job interview, membership renewal, late payment, training course, product return,
    conference booking, building permit, test results, account closure, parking permit, travel expenses, safety
    notice"""
)
METRICS = _lines(
    """Revenue, Costs, Profit, Orders, Visitors, Complaints, Deliveries, Units sold, Energy use, Water use, Staff,
    Overtime hours, Training days, Absences, Rainfall, Temperature, Population, Births, Exports, Imports, Passengers,
    Accidents, Members, Subscriptions, Downloads, Returns, Downtime, Output, Yield, Waste, Emissions, Response time,
    Satisfaction, Market share, Growth, Margin, Debt, Investment, Capacity, Turnover, Enrolments, Applications"""
)
HELD_METRICS = _lines(
    """Net sales, Expenses, Footfall, Tickets closed, Parcels shipped, Sick leave, Harvest, Freight, Loans, Overnight
    stays, Repairs, Failures, Licences, Donations, Head count, Backlog, Utilisation, Throughput, Revenue, Visitors"""
)
HEADINGS = _lines(
    """Summary, Background, Scope, Findings, Method, Results, Outlook, Budget, Staffing, Risks, Schedule, Next steps,
    Market overview, Operations, Finance, Maintenance, Safety, Environment, Customers, Suppliers, Training, Quality,
    Procurement, Transport, Energy, Water, Buildings, Equipment, Communication, Recommendations, Conclusions,
    Regional results, Investments, Compliance, Personnel, Logistics, Research, Services, Legal matters, Governance"""
)
TERMS = _lines(
    """net 14 days, net 30 days, net 60 days, due on receipt, payable within 10 days, 50 % in advance, cash on delivery,
    30 days end of month, 2 % discount within 7 days, payable in three instalments, prepaid, monthly by direct debit"""
)
METHODS = _lines("bank transfer, credit card, direct debit, cheque, cash, PayPal, letter of credit, debit card")
CARRIERS = _lines(
    "road freight, courier, air freight, sea freight, rail, own collection, parcel post, overnight express"
)
UNITS = _words("pcs kg m box set h l pack roll day pair t")
NATIONALITIES = _words(
    "Austrian Belgian Brazilian Canadian Chilean Danish Dutch Finnish French German Greek Indian Irish Italian "
    "Japanese "
    "Kenyan Mexican Norwegian Polish Portuguese Spanish Swedish Swiss Turkish British American"
)
COLOURS = _words("black white silver grey blue red green yellow orange brown beige turquoise violet")
SCHOOLS = _lines(
    "primary school, secondary school, vocational college, technical university, art academy, night school"
)
MARITAL = _lines("single, married, divorced, widowed, separated, in a partnership")
STATES = _lines(
    "approved, rejected, pending, open, closed, passed, failed, in progress, on hold, complete, urgent, normal, draft"
)
