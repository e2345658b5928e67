"""What the Worlds tab draws: pictures, the status strip, measures, and what each world needs."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape

from PIL import Image as Pictures

from apps.demo.worlds_screen import Phase, Snapshot
from apps.world_states import WorldState
from backbone.contracts import ActionSpec, Image
from backbone.rollout.results import EpisodeResult

JPEG_QUALITY = 85
LONGEST_SHOWN = 640  # pixels; larger pictures are sent smaller
WORDS: dict[Phase, str] = {
    "waiting": "Waiting for its turn.",
    "opening": "Opening the world.",
    "running": "Running.",
    "done": "Done.",
    "cancelled": "Stopped.",
    "failed": "Failed.",
}
IDLE = (
    '<div class="fv-world-status" data-phase="idle"><p>Choose a world and run an episode. Its cameras, its map and its '
    "measures are shown here while it runs.</p></div>"
)


def view_html(shown: Snapshot) -> str:
    """The cameras side by side, then the map or trajectory; pictures are part of the page, no files are left behind."""
    panels = [_panel(name, picture) for name, picture in shown.pictures.items()]
    panels.append(_panel("map", shown.drawing))
    return f'<div class="fv-world-view" data-step="{shown.step}">{"".join(panels)}</div>'


def _panel(name: str, picture: Image) -> str:
    height, width = picture.shape[:2]
    shape = width / height  # basis and growth in this proportion give all panels of a row one height
    style = f"flex:{shape:.3f} 1 {170 * shape:.0f}px;max-width:{420 * shape:.0f}px"
    image = f'<img src="{picture_url(picture)}" alt="{escape(name)}" width="{width}" height="{height}">'
    return f'<figure style="{style}">{image}<figcaption>{escape(name)}</figcaption></figure>'


def picture_url(picture: Image) -> str:
    """A picture (H, W, 3) as a JPEG inside its own address."""
    image = Pictures.fromarray(picture)
    image.thumbnail((LONGEST_SHOWN, LONGEST_SHOWN))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def status_html(phase: Phase, shown: Snapshot | None = None, *, title: str = "", message: str = "") -> str:
    """The strip below the pictures: what is run, its instruction, how far it is, and what the agent just did."""
    head = f"<b>{escape(title)}</b>" if title else ""
    text = f'<p role="status" aria-live="polite">{escape(message or WORDS[phase])}</p>'
    body = _progress(shown) if shown is not None else ""
    return f'<div class="fv-world-status" data-phase="{phase}"><div>{head}{text}</div>{body}</div>'


def _progress(shown: Snapshot) -> str:
    numbers = {
        "step": f"{shown.step} / {shown.max_steps}",
        "world time": f"{shown.time_s:.1f} s",
        "speed": f"{shown.steps_per_s:.0f} steps/s" if shown.steps_per_s else "...",
        "reward": f"{shown.total_reward:.2f}",
        "tokens": f"{shown.tokens:,}",
    }
    cells = "".join(f"<span><small>{name}</small>{value}</span>" for name, value in numbers.items())
    part = 100 * shown.step / max(1, shown.max_steps)
    thought = f"<p><i>{escape(shown.thought)}</i></p>" if shown.thought else ""
    return (
        f'<p class="fv-instruction">{escape(shown.instruction)}</p>'
        f'<div class="fv-track"><i class="fv-visual" style="width:{part:.1f}%"></i></div>'
        f'<div class="fv-numbers">{cells}</div>{action_html(shown.spec, shown.action)}{thought}'
    )


def action_html(spec: ActionSpec, action: Sequence[float] | None) -> str:
    """The last action: its choice among all of them, or every value with its unit."""
    if action is None:
        return '<div class="fv-action fv-muted">no action yet</div>'
    if spec.kind == "discrete":
        names = spec.choices or tuple(str(i) for i in range(round(spec.low[0]), round(spec.high[0]) + 1))
        chosen = round(action[0] - spec.low[0])
        cells = "".join(
            f'<span class="{"fv-chosen" if i == chosen else "fv-muted"}">{escape(name)}</span>'
            for i, name in enumerate(names)
        )
    else:
        cells = "".join(
            f"<span><small>{escape(name)}</small>{value:+.2f} {escape(unit)}</span>"
            for name, value, unit in zip(spec.names, action, spec.units, strict=True)
        )
    return f'<div class="fv-action">{cells}</div>'


def metrics_html(metrics: Mapping[str, float], when: str) -> str:
    """The episode's measures, each with its name."""
    cells = "".join(
        f'<div><dt>{escape(name.replace("_", " "))}</dt><dd data-metric="{escape(name)}">{_number(value)}</dd></div>'
        for name, value in metrics.items()
    )
    return f'<section class="fv-world-metrics"><h3>Measures {escape(when)}</h3><dl>{cells}</dl></section>'


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else f"{value:.3f}"


def result_html(result: EpisodeResult) -> str:
    """What came of an episode, as a sentence."""
    ends = {
        "terminated": "the world ended it",
        "truncated": "its time was up",
        "limit": "the limit of steps was reached",
    }
    outcome = "Success" if result.success else "No success"
    return f"{outcome} after {result.steps} steps: {ends.get(result.end, result.end)}."


def remedies_html(states: Sequence[WorldState]) -> str:
    """The worlds that cannot be used here, each with the line that changes that."""
    missing = [state for state in states if state.state != "ready"]
    if not missing:
        return ""
    items = "".join(
        f'<li data-world="{state.name}"><b>{state.name}</b>, {escape(state.summary)}: {escape(state.detail)}. '
        f"Get it with <code>{escape(state.remedy)}</code>, then start the demo again.</li>"
        for state in missing
    )
    return f'<ul class="fv-notes" id="worlds-missing">{items}</ul>'


WORLDS_CSS = """
#worlds-view:not(:has(img)), #worlds-metrics:not(:has(dd)) { display: none; }
.fv-world-view { display: flex; flex-wrap: wrap; gap: 8px; background: #12141a; border-radius: 10px; padding: 8px; }
.fv-world-view figure { margin: 0; position: relative; min-width: 0; }
.fv-world-view img { width: 100%; height: auto; display: block; border-radius: 6px; }
.fv-world-view figcaption { position: absolute; left: 6px; top: 6px; padding: 1px 7px; border-radius: 4px;
  background: rgb(18 20 26 / .78); color: #e6e8ec; font-size: .75rem; }
.fv-world-status { padding: 10px 14px; border-radius: 10px; border: 1px solid var(--border-color-primary);
  background: var(--background-fill-primary); display: grid; gap: 8px; }
.fv-world-status[data-phase=idle] { border-style: dashed; color: var(--body-text-color-subdued); }
.fv-world-status p { margin: 0; overflow-wrap: anywhere; }
.fv-world-status > div:first-child { display: flex; flex-wrap: wrap; gap: 2px 14px; justify-content: space-between; }
.fv-world-status[data-phase=running] p[role=status] { color: var(--primary-700); }
.dark .fv-world-status[data-phase=running] p[role=status] { color: var(--primary-400); }
.fv-world-status[data-phase=failed] p[role=status] { color: #b42318; }
.dark .fv-world-status[data-phase=failed] p[role=status] { color: #fecdca; }
.fv-world-status[data-phase=cancelled] p[role=status] { color: #93370d; }
.dark .fv-world-status[data-phase=cancelled] p[role=status] { color: #fedf89; }
.fv-world-status .fv-track { height: 6px; }
.fv-instruction { font-size: 1.05rem; font-weight: 600; }
.fv-numbers, .fv-action { display: flex; flex-wrap: wrap; gap: 4px 18px; font-variant-numeric: tabular-nums; }
.fv-numbers small, .fv-action small { color: var(--body-text-color-subdued); margin-right: 6px; }
.fv-action { font-size: .9rem; gap: 4px 14px; }
.fv-action .fv-chosen { color: white; background: var(--primary-700); border-radius: 5px; padding: 0 8px; }
.fv-world-metrics h3 { margin: 0 0 6px; font-size: 1rem; font-weight: 600; }
.fv-world-metrics dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 8px;
  margin: 0; }
.fv-world-metrics dl > div { padding: 6px 12px; border-radius: 8px; border: 1px solid var(--border-color-primary);
  background: var(--background-fill-primary); }
.fv-world-metrics dt { font-size: .8rem; font-weight: 400; color: var(--body-text-color-subdued); }
.fv-world-metrics dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
"""
