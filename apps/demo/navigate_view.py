"""What the Navigate tab draws: camera, look around, map and clock of each contender, thoughts, and the measures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from apps.demo.navigate_choices import Contender, NavigateRequest
from apps.demo.navigate_lane import LaneShown, Thought
from apps.demo.navigate_map import COLOURS, ROBOT, SHORTEST, START, TARGET
from apps.demo.navigate_measures import ENDS, FAILED, measures_html
from apps.demo.worlds_screen import Phase as RunPhase
from apps.demo.worlds_view import picture_url, status_html
from backbone.contracts import Image
from backbone.rollout.results import EpisodeResult
from navigation.failures import classify
from navigation.metrics import UNREACHABLE_M

IDLE = (
    '<div class="fv-world-status" data-phase="idle"><p>Choose a home and an object, and run. The robot\'s camera, its '
    "map and its thoughts are shown here while it searches; beside them those of another way to decide, if you "
    "compare.</p></div>"
)
MOST_THOUGHTS = 12  # shown of each, the newest
SIDES = (1, 0, 3, 2)  # of a look around, as they stand beside each other: left, ahead, right, behind
SIDE_NAMES = ("ahead", "left", "behind", "right")
PHASE_WORDS = {"fast": "acts at once", "slow": "thinks", "looking": "looks around"}
WHY = {
    "start": "at the start",
    "policy": "the model asked for it",
    "offered": "called for by the limit",
    "forced": "forced by the limit",
    "blocked": "the way ahead is blocked",
    "strategy": "by the rule",
    "context": "its context was full",
    "asked": "it was asked to",
}


def status_of(phase: RunPhase, request: NavigateRequest | None = None, steering: str = "", message: str = "") -> str:
    """The strip above the lanes: what is run on which model, and how it stands."""
    if request is None:
        return status_html(phase, message=message)
    title = f"Find the {request.category.replace('_', ' ')}: {request.title}"
    steered = f'<p class="fv-nav-steering fv-muted">Model: {escape(steering)}.</p>'
    return status_html(phase, title=title, message=message) + (steered if steering and _uses_model(request) else "")


def _uses_model(request: NavigateRequest) -> bool:
    return any(contender.speaks or contender.strategy == "never" for contender in request.contenders)


def outcome_of(title: str, result: EpisodeResult, named: bool) -> str:
    """What came of an episode, as a sentence; ``named`` says whose it was."""
    ends = ENDS[classify(result.metrics)]
    return f"{title[:1].upper() + title[1:]}: {ends}." if named else f"{ends[:1].upper() + ends[1:]}."


def results_html(contenders: Sequence[Contender], rows: Sequence[EpisodeResult]) -> str:
    """The measures at the end; two contenders with their difference."""
    return measures_html([contender.title for contender in contenders], rows)


def lanes_html(lanes: Sequence[LaneShown]) -> str:
    """All lanes side by side, and what the colours mean."""
    shown = "".join(_lane(number, lane) for number, lane in enumerate(lanes))
    return f'<div class="fv-nav" data-lanes="{len(lanes)}">{shown}</div>{_legend()}'


def _lane(number: int, lane: LaneShown) -> str:
    state = ("ended" if lane.success else FAILED) if lane.ended else lane.phase
    words = ("success" if lane.success else "no success") if lane.ended else PHASE_WORDS[lane.phase]
    pictures = lane.pictures
    part = 100 * lane.counts.steps / max(1, lane.max_steps)
    return (
        f'<article class="fv-nav-lane" data-lane="{number}" data-step="{lane.counts.steps}" data-state="{state}">'
        f"<header><b>{escape(lane.contender.title)}</b><span>{words}</span></header>"
        f'<div class="fv-track"><i class="fv-visual" style="width:{part:.1f}%"></i></div>'
        f'<div class="fv-nav-scene"><div class="fv-nav-map">{_figure("map", pictures.drawing)}</div>'
        f'<div class="fv-nav-ahead">{_figure("ahead", pictures.ahead)}</div>{_clock(lane)}{_around(lane)}</div>'
        "</article>"
    )


def _figure(name: str, picture: Image) -> str:
    height, width = picture.shape[:2]
    image = f'<img src="{picture_url(picture)}" alt="{escape(name)}" width="{width}" height="{height}">'
    return f"<figure>{image}<figcaption>{escape(name)}</figcaption></figure>"


def _around(lane: LaneShown) -> str:
    """The four views of the newest look around, in the order in which they stand around the robot."""
    views = lane.pictures.around
    if views is None:
        return ""
    shown = "".join(_figure(SIDE_NAMES[side], views[side]) for side in SIDES)
    return f'<div class="fv-nav-around"><p>Look {lane.counts.looks}</p>{shown}</div>'


def _clock(lane: LaneShown) -> str:
    counts, measures = lane.counts, lane.measures
    left = measures["distance_to_goal"]
    cells = {
        "step": f"{counts.steps} of {lane.max_steps}",
        "looks": f"{counts.looks}",
        "robot's time": f"{measures['execution_time']:.1f} s",
        "thinking here": f"{counts.thinking_s:.1f} s",
        "tokens encoded": f"{counts.encoded:,}",
        "tokens written": f"{counts.written:,}",
        "walked": f"{measures['path_length']:.1f} m",
        "way left": "none" if left >= UNREACHABLE_M else f"{left:.1f} m",
    }
    return (
        '<dl class="fv-nav-clock">'
        + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in cells.items())
        + "</dl>"
    )


def _legend() -> str:
    entries = (
        ("acted at once", COLOURS["fast"]),
        ("thought about", COLOURS["slow"]),
        ("looked around", COLOURS["looking"]),
        ("start", START),
        ("target", TARGET),
        ("shortest way", SHORTEST),
        ("robot", ROBOT),
    )
    items = "".join(f'<span><i style="background:rgb{colour}"></i>{name}</span>' for name, colour in entries)
    return f'<div class="fv-legend">{items}<span>Dark: not seen yet.</span></div>'


def thoughts_html(lanes: Sequence[LaneShown]) -> str:
    """The thoughts of every lane, the newest first."""
    if not any(lane.contender.speaks for lane in lanes):
        return ""
    return f'<div class="fv-nav">{"".join(_thoughts(n, lane) for n, lane in enumerate(lanes))}</div>'


def _thoughts(number: int, lane: LaneShown) -> str:
    if not lane.contender.speaks:
        body = f'<p class="fv-muted">{escape(lane.contender.title)} writes no thoughts.</p>'
    elif not lane.thoughts:
        body = '<p class="fv-muted">No thought yet.</p>'
    else:
        shown = "".join(_thought(thought) for thought in reversed(lane.thoughts[-MOST_THOUGHTS:]))
        earlier = max(0, len(lane.thoughts) - MOST_THOUGHTS)
        body = f"<ol>{shown}</ol>" + (f'<p class="fv-muted">and {earlier} before them</p>' if earlier else "")
    return f'<section class="fv-nav-thoughts" data-lane="{number}"><h3>Thoughts</h3>{body}</section>'


def _thought(thought: Thought) -> str:
    text = escape(thought.text)
    if thought.action:
        state, end = "done", f" <b>{escape(thought.action)}</b>"
        end += (
            ' <small class="fv-muted">Its reply named no action; this is the likeliest.</small>'
            if thought.repaired
            else ""
        )
    else:
        state, end = "writing", '<span class="fv-caret"></span>'
    why = WHY.get(thought.why, thought.why)
    return (
        f'<li data-thought="{state}"><i>{thought.number}</i><div><small class="fv-muted">{escape(why)}</small>'
        f"<p>{text}{end}</p></div></li>"
    )


NAVIGATE_CSS = """
#navigate-view:not(:has(img)), #navigate-thoughts:not(:has(section)), #navigate-results:not(:has(table)) {
  display: none; }
.fv-nav { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)); gap: 12px; }
.fv-nav-lane { background: #12141a; color: #e6e8ec; border-radius: 10px; padding: 10px;
  display: grid; gap: 8px; align-content: start; }
.fv-nav-lane header { display: flex; justify-content: space-between; gap: 12px; align-items: baseline; }
.fv-nav-lane header b { color: #fff; }
.fv-nav-lane header span { padding: 0 9px; border-radius: 9px; font-size: .8rem; background: #0072b2; color: #fff; }
.fv-nav-lane[data-state=slow] header span { background: #c03992; }
.fv-nav-lane[data-state=looking] header span { background: #0f766e; }
.fv-nav-lane[data-state=ended] header span { background: #2e7d4f; }
.fv-nav-lane[data-state=failed] header span { background: #b42318; }
.fv-nav-lane .fv-track { height: 4px; background: #2a2f3a; }
.fv-nav-scene { display: grid; gap: 10px; align-items: start; grid-template-columns: repeat(2, minmax(0, 1fr));
  grid-template-areas: "map map" "ahead clock" "around around"; }
.fv-nav-map { grid-area: map; } .fv-nav-ahead { grid-area: ahead; }
.fv-nav figure { margin: 0; position: relative; min-width: 0; }
.fv-nav-steering { margin: 4px 0 0; font-size: .85rem; }
.fv-nav img { width: 100%; height: auto; display: block; border-radius: 6px; }
.fv-nav figcaption { position: absolute; left: 5px; top: 5px; padding: 0 6px; border-radius: 4px; font-size: .72rem;
  background: rgb(18 20 26 / .78); color: #e6e8ec; }
.fv-nav-map figcaption { top: auto; bottom: 5px; }
.fv-nav-around { grid-area: around; display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 4px; }
.fv-nav-around p { margin: 0; font-size: .8rem; color: #aab1bd; grid-column: 1 / -1; }
@media (min-width: 1000px) {
  [data-lanes="1"] .fv-nav-scene { grid-template-columns: minmax(0, 3fr) minmax(0, 2fr);
    grid-template-rows: auto 1fr; grid-template-areas: "map ahead" "map clock" "around around"; }
}
.fv-nav-around figcaption { font-size: .6rem; left: 2px; top: 2px; padding: 0 4px; }
.fv-nav-clock { grid-area: clock; margin: 0; font-size: .84rem; font-variant-numeric: tabular-nums;
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(150px, 100%), 1fr)); column-gap: 16px; }
.fv-nav-clock > div { display: flex; justify-content: space-between; gap: 8px; padding: 1px 0;
  border-bottom: 1px solid #2a2f3a; }
.fv-nav-clock dt { color: #aab1bd; font-weight: 400; } .fv-nav-clock dd { margin: 0; color: #fff; }
.fv-nav-thoughts { min-width: 0; }
.fv-nav-thoughts h3, .fv-nav-results h3 { margin: 0 0 6px; font-size: 1rem; font-weight: 600; }
.fv-nav-thoughts ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 6px; max-height: 264px;
  overflow-y: auto; }
.fv-nav-thoughts li { margin: 0; padding: 8px 12px; border-radius: 8px; display: flex; gap: 10px;
  border: 1px solid var(--border-color-primary); background: var(--background-fill-primary); }
.fv-nav-thoughts li[data-thought=writing] { border-color: #c03992; }
.fv-nav-thoughts li i { flex: none; width: 24px; height: 24px; line-height: 24px; border-radius: 12px;
  text-align: center; font-style: normal; font-size: .8rem; font-weight: 700; color: #fff; background: #0f766e; }
.fv-nav-thoughts p { margin: 0; overflow-wrap: anywhere; }
.fv-nav-thoughts small { display: block; }
.fv-nav-results table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0; }
.fv-nav-results :is(table, thead, tbody, tr) { border: 0 !important; }
.fv-nav-results :is(th, td) { padding: 4px 8px; text-align: right; border: 0 !important; font-weight: 400;
  border-bottom: 1px solid var(--border-color-primary) !important; }
.fv-nav-results :is(thead, tbody) th:first-child { text-align: left; } .fv-nav-results td { font-weight: 600; }
.fv-nav-results thead th { color: var(--body-text-color-subdued); }
.fv-nav-results td[data-better=yes] { color: #17693a; } .fv-nav-results td[data-better=no] { color: #b42318; }
.dark .fv-nav-results td[data-better=yes] { color: #7ddb9f; }
.dark .fv-nav-results td[data-better=no] { color: #fda29b; }
"""
