"""The stages that made the shipped nano, in order. Sources named here are registered by whoever owns them."""

from __future__ import annotations

from backbone.nano.config import CurriculumConfig, Guidance, StageConfig

SMALL = ((128, 128), (160, 128), (128, 160))
MIDDLE = ((160, 160), (192, 160), (160, 192), (192, 192))

RECIPE = (
    StageConfig(
        "tower",  # crowded little scenes, dense supervision only: what is where, before any language
        steps=4000,
        curriculum=CurriculumConfig(
            weights=(("crowded", 1.0),),
            sizes=SMALL,
            images_per_step=16,
            tokens_per_picture=1,
            guidance=Guidance(answer=0.0, dense=1.0),
        ),
    ),
    StageConfig(
        "written",  # looking things up in scenes written out as text
        steps=600,
        frozen_tower=True,
        curriculum=CurriculumConfig(weights=(("written", 1.0),), guidance=Guidance(dense=0.0, attention=0.0)),
    ),
    StageConfig(
        "pictures",  # the same questions about pictures
        steps=8000,
        curriculum=CurriculumConfig(weights=(("shapes", 0.85), ("easy_vqa", 0.1), ("text", 0.05)), sizes=MIDDLE),
    ),
    StageConfig(
        "everything",  # all sources at full size, with the prompts of perception
        steps=8000,
        learning_rate=7e-4,
        curriculum=CurriculumConfig(
            weights=(
                ("shapes", 0.3),
                ("easy_vqa", 0.1),
                ("text", 0.1),
                ("search", 0.25),
                ("close_up", 0.2),
                ("native", 0.05),
            )
        ),
    ),
)
