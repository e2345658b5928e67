"""The stages that made the shipped nano, in order. Sources named here are registered by whoever owns them."""

from __future__ import annotations

from backbone.nano.config import CurriculumConfig, Guidance, StageConfig

SMALL = ((128, 128), (160, 128), (128, 160))

RECIPE = (
    StageConfig(
        "tower",  # little scenes, dense supervision only: what is where, and which letter, before any language
        steps=6000,
        curriculum=CurriculumConfig(
            weights=(("crowded", 0.4), ("lettered", 0.6)),
            sizes=(*SMALL, (192, 192)),
            images_per_step=24,
            tokens_per_picture=1,
            guidance=Guidance(answer=0.0, dense=1.0),
        ),
    ),
    StageConfig(
        "written",  # looking things up in scenes written out as text
        steps=500,
        frozen_tower=True,
        curriculum=CurriculumConfig(weights=(("written", 1.0),), guidance=Guidance(dense=0.0, attention=0.0)),
    ),
    StageConfig(
        "pictures",  # the same questions about pictures; an untrained reader would spoil the tower, so it rests
        steps=3000,
        frozen_tower=True,
        learning_rate=1.2e-3,
        curriculum=CurriculumConfig(
            weights=(("shapes", 0.92), ("easy_vqa", 0.08)),
            sizes=SMALL,
            images_per_step=10,
            tokens_per_picture=300,
            guidance=Guidance(dense=0.0, attention=0.2),
        ),
    ),
    StageConfig(
        "everything",  # all sources at full size, with the prompts of perception; the tower learns on
        steps=12_000,
        learning_rate=4e-4,
        curriculum=CurriculumConfig(
            weights=(
                ("shapes", 0.31),
                ("crowded", 0.05),
                ("lettered", 0.12),
                ("easy_vqa", 0.1),
                ("text", 0.04),
                ("search", 0.21),
                ("close_up", 0.13),
                ("native", 0.04),
            ),
            images_per_step=8,
            guidance=Guidance(dense=0.4, attention=0.2),
        ),
    ),
)
