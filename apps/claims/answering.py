"""Claims about what nano knows without searching."""

from __future__ import annotations

from dataclasses import asdict

from apps.claims.claim import Finding, Workbench

SHARE, BATCH = 0.95, 64
IOU, GROUNDING_ITEMS = 0.7, 500
ABILITY, ABILITY_ITEMS = 0.8, 200


def easy_vqa(bench: Workbench) -> Finding:
    """Free answers over the whole test split of the public easy-VQA package, which nano is never trained on."""
    from backbone.curriculum.easy_vqa import picture, questions
    from backbone.statistics import wilson
    from perception.prompts import direct_messages

    asked = questions("test")
    right: list[bool] = []
    for start in range(0, len(asked), BATCH):
        part = asked[start : start + BATCH]
        prompts = [direct_messages(picture("test", q.image), q.question) for q in part]
        answers = bench.vlm.generate_batch(prompts, max_new_tokens=8)
        right += [made.texts[0].strip().lower() == q.answer for made, q in zip(answers, part, strict=True)]
    share = wilson(sum(right), len(right))
    return Finding(share.estimate >= SHARE, f"accuracy {share}", asdict(share))


def grounding(bench: Workbench) -> Finding:
    """Mean IoU of located things in held-out generated scenes of up to eight."""
    from backbone.nano.measure import grounding_ious
    from backbone.statistics import bootstrap_mean

    ious = grounding_ious(bench.vlm, GROUNDING_ITEMS)
    mean = bootstrap_mean(ious)
    half = sum(v > 0.5 for v in ious) / len(ious)
    return Finding(mean.estimate >= IOU, f"mean IoU {mean}, over one half in {100 * half:.1f} %", asdict(mean))


def abilities(bench: Workbench) -> Finding:
    """Exact answers about held-out generated scenes, by kind of question."""
    from backbone.nano.measure import abilities as measured
    from backbone.statistics import wilson

    shares = {name: wilson(sum(right), len(right)) for name, right in measured(bench.vlm, ABILITY_ITEMS).items()}
    words = "; ".join(f"{name} {share}" for name, share in shares.items())
    return Finding(
        all(share.estimate >= ABILITY for share in shares.values()), words, {k: asdict(v) for k, v in shares.items()}
    )
