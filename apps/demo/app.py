"""The demo as a whole: its tabs over one loaded model, one run of it at a time, on this machine alone."""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gradio as gr

from apps.demo import documents_tab, navigate_tab, search_tab, worlds_tab
from apps.demo.config import DemoConfig
from apps.demo.context import DemoContext
from apps.demo.documents_desk import Desk, Shelf, load_shipped
from apps.demo.documents_view import DOCUMENTS_CSS
from apps.demo.fields import Page
from apps.demo.jobs import Jobs
from apps.demo.navigate_pilot import Pilot
from apps.demo.navigate_run import owner_of
from apps.demo.navigate_view import NAVIGATE_CSS
from apps.demo.style import CSS, theme
from apps.demo.worlds_view import WORLDS_CSS
from backbone.vlm import VLM
from docparse.pipeline import DocumentReader
from navigation.agent_config import HydraConfig

TABS: list[tuple[str, Callable[[DemoContext], None]]] = [
    ("Search", search_tab.build),
    ("Documents", documents_tab.build),
    ("Navigate", navigate_tab.build),
    ("Worlds", worlds_tab.build),
]

HEAD = """<div class="fv-head"><h1>Fovea</h1>
<p>The eye sees most of the world blurred and turns its sharp centre to where it matters. So does the model here: it
reads a small picture, decides where to look closely, and answers.</p></div>"""
CLEAN_EVERY_S = 600
KEEP_UPLOADS_S = 3600


def build_demo(
    vlm: VLM,
    config: DemoConfig | None = None,
    load_reader: Callable[[], DocumentReader] = load_shipped,
    hydra: HydraConfig | None = None,
) -> gr.Blocks:
    """The page with all tabs, not yet served.

    ``vlm`` runs one run at a time; worlds run beside it, a few at once, and so does the reader of documents, which
    ``load_reader`` gives when it is first needed. ``hydra`` names the model that navigates, by default nano.
    """
    config = config or DemoConfig()
    worlds = Jobs(config.world_deadline_s, turns=config.max_worlds)
    documents = Desk(load_reader, Jobs(config.document_deadline_s), Shelf())
    context = DemoContext(vlm, config, Jobs(config.deadline_s), worlds, documents, Pilot(hydra or HydraConfig()))
    demo = Page(title="Fovea", analytics_enabled=False, delete_cache=(CLEAN_EVERY_S, KEEP_UPLOADS_S))
    with demo:
        gr.HTML(HEAD)
        for name, build in TABS:
            with gr.Tab(name):
                build(context)
        demo.unload(_leave(context))
    demo.queue(max_size=config.max_queue, default_concurrency_limit=1)
    return demo


def _leave(context: DemoContext) -> Callable[[gr.Request], None]:
    def leave(request: gr.Request) -> None:
        owner = str(request.session_hash)
        context.jobs.cancel(owner)
        context.worlds.cancel(owner)
        context.worlds.cancel(owner_of(owner))
        context.documents.leave(owner)

    return leave


def serve(demo: gr.Blocks, config: DemoConfig, *, block: bool) -> str:
    """Serve a page and return its address (with ``block`` only when interrupted); nothing is loaded from outside."""
    _, address, _ = demo.launch(
        server_name=config.host,
        server_port=config.port,
        max_file_size=config.max_upload_bytes,
        theme=theme(),
        css=CSS + WORLDS_CSS + DOCUMENTS_CSS + NAVIGATE_CSS,
        share=False,
        ssr_mode=False,
        mcp_server=False,
        run_history=False,
        footer_links=[],
        show_error=False,
        quiet=True,
        prevent_thread_lock=not block,
    )
    return str(address)
