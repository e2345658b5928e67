"""The look of the demo: fonts of the reader's own system, nothing loaded from elsewhere, light and dark."""

from __future__ import annotations

import gradio as gr

FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")


def theme() -> gr.themes.Base:
    """Gradio's plain theme in one accent colour, with local fonts only."""
    return gr.themes.Base(
        primary_hue=gr.themes.colors.teal,
        secondary_hue=gr.themes.colors.teal,
        neutral_hue=gr.themes.colors.slate,
        radius_size=gr.themes.sizes.radius_md,
        font=[gr.themes.Font(name) for name in FONTS],
        font_mono=[gr.themes.Font(name) for name in MONO],
    ).set(
        body_background_fill="*neutral_50",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_text_color="white",
        button_primary_background_fill_dark="*primary_700",
        block_label_text_color="*neutral_600",
        body_text_color_subdued="*neutral_500",
        body_text_color_subdued_dark="*neutral_400",
    )


CSS = """
.gradio-container { max-width: min(1240px, 100vw) !important; min-width: 0 !important; margin: 0 auto !important;
  padding: 0 !important; }
.gradio-container .html-container { padding: 0 !important; }
@media (max-width: 640px) { .gradio-container main { padding: 8px 14px 24px !important; } }
.fv-head { padding: 20px 0 4px; }
.fv-head h1 { margin: 0; font-size: 1.6rem; font-weight: 650; letter-spacing: -0.01em; }
.fv-head p { margin: 4px 0 0; color: var(--body-text-color-subdued); max-width: 62ch; }
.fv-columns > .column { min-width: min(320px, 100%) !important; }
/* Areas that are still empty take no room. */
#search-answer:not(:has(.fv-answer)), #search-regions:not(:has(li)), #search-notes:not(:has(li)),
#search-ledger:not(:has(.fv-ledger)), #search-boxes:not(:has(img)),
#search-crops:not(:has(img)) { display: none; }
.fv-muted { color: var(--body-text-color-subdued); }
.fv-buttons button { min-height: 44px; }

.fv-idle { list-style: none; margin: 0; padding: 0; display: grid; gap: 10px; }
.fv-idle li { margin: 0; padding: 14px 18px; border-radius: 10px; border: 1px dashed var(--border-color-primary);
  color: var(--body-text-color-subdued); }
.fv-idle b { display: block; color: var(--body-text-color); text-transform: capitalize; }
.fv-stages { min-height: 66px; }
.fv-stages ol { display: flex; gap: 8px; list-style: none; margin: 0 0 6px; padding: 0; }
.fv-stages li { flex: 1; padding: 8px 12px; border-radius: 8px; border: 1px solid var(--border-color-primary);
  display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 8px; margin: 0;
  color: var(--body-text-color-subdued); background: var(--background-fill-primary); }
.fv-stages li small { font-variant-numeric: tabular-nums; opacity: .85; }
.fv-stages li.fv-done { color: var(--body-text-color); border-color: var(--primary-400); }
.fv-stages li.fv-active { color: white; background: var(--primary-700); border-color: var(--primary-700);
  animation: fv-pulse 1.4s ease-in-out infinite; }
.fv-stages p { margin: 0; color: var(--body-text-color-subdued); font-size: .92rem; min-height: 1.4em; }
.fv-stages[data-phase=failed] p { color: #b42318; background: #fef3f2; border: 1px solid #fda29b; border-radius: 8px;
  padding: 10px 14px; overflow-wrap: anywhere; }
.dark .fv-stages[data-phase=failed] p { color: #fecdca; background: #55160c; border-color: #912018; }
.fv-stages[data-phase=cancelled] p { color: #93370d; }
.dark .fv-stages[data-phase=cancelled] p { color: #fedf89; }
@keyframes fv-pulse { 50% { opacity: .72; } }
@media (prefers-reduced-motion: reduce) { .fv-stages li.fv-active, .fv-caret { animation: none; } }

.fv-answer { font-size: 1.5rem; line-height: 1.35; font-weight: 600; padding: 14px 18px; border-radius: 10px;
  overflow-wrap: anywhere; white-space: pre-wrap;
  background: var(--background-fill-primary); border: 1px solid var(--border-color-primary);
  border-left: 4px solid var(--primary-600); }
.fv-answer.fv-muted { font-size: 1rem; font-weight: 400; }
.fv-caret { display: inline-block; width: .5ch; height: 1em; margin-left: 2px; vertical-align: -0.12em;
  background: var(--primary-600); animation: fv-pulse 1s infinite; }

.fv-regions { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 6px 18px; }
.fv-regions li { display: flex; align-items: center; gap: 8px; margin: 0; }
.fv-regions i { color: white; font-style: normal; font-size: .8rem; font-weight: 700; min-width: 20px; padding: 1px 6px;
  border-radius: 4px; text-align: center; }
.fv-regions small { color: var(--body-text-color-subdued); }
.fv-notes { margin: 0; padding-left: 1.2em; color: var(--body-text-color-subdued); font-size: .9rem; }

.fv-ledger > p { margin: 0 0 10px; }
.fv-bar { display: grid; grid-template-columns: 92px minmax(0, 1fr) 62px; align-items: center; gap: 10px;
  margin: 5px 0; }
.fv-bar > span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.fv-track { display: flex; height: 16px; background: var(--background-fill-secondary); border-radius: 4px;
  overflow: hidden; }
.fv-track i { min-width: 2px; }
.fv-visual { background: #0f766e; } .fv-text { background: #64a5d8; } .fv-generated { background: #e0812b; }
.fv-legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 10px 0; font-size: .85rem;
  color: var(--body-text-color-subdued); }
.fv-legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
.fv-scroll { overflow-x: auto; contain: inline-size; }
.tab-container button.selected, button[role=tab][aria-selected=true] { color: var(--primary-700); }
.dark button[role=tab][aria-selected=true] { color: var(--primary-400); }
/* All tabs have room on a phone. */
@media (max-width: 640px) { .tab-container button { padding-inline: 9px !important; font-size: .88rem !important; } }
#search-boxes img { max-height: 480px; object-fit: contain; }
#search-crops, #search-crops .grid-wrap { min-height: 0 !important; height: auto !important; }
.fv-ledger table { width: 100%; border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums;
  margin: 0; }
.fv-ledger :is(table, thead, tbody, tfoot, tr) { border: 0 !important; }
.fv-ledger :is(th, td) { padding: 5px 8px; text-align: right; border: 0 !important; white-space: nowrap;
  border-bottom: 1px solid var(--border-color-primary) !important; }
.fv-ledger :is(thead, tbody, tfoot) th:first-child { text-align: left; }
@media (max-width: 640px) { .fv-ledger table { font-size: .72rem; } .fv-ledger :is(th, td) { padding: 5px 2px; } }
.fv-ledger thead th { font-weight: 500; color: var(--body-text-color-subdued); }
.fv-ledger tbody th { font-weight: 400; }
.fv-ledger tfoot :is(th, td) { font-weight: 650; border-bottom: 0 !important; }
"""
