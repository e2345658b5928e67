"""Claims about what nano knows without searching."""

from __future__ import annotations

from dataclasses import asdict

from apps.claims.claim import Finding, Workbench

SHARE, BATCH = 0.95, 64


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
