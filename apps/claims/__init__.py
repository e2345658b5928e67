"""The claims of the README, each with the function that measures it again: ``fovea reproduce``."""

from __future__ import annotations

from functools import partial

from apps.claims.answering import abilities, easy_vqa, grounding
from apps.claims.claim import Claim
from apps.claims.costs import cold_start, memory_8192, shared_samples
from apps.claims.documents import beats_rival, reads_documents
from apps.claims.long_documents import BUDGET, beats_all_words, beats_within_budget, takes_two_looks
from apps.claims.searching import beats_native, beats_zoom, few_tokens, samples_help

CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for claim in (
        Claim("grounding", "nano locates things in scenes of up to eight", "mean IoU >= 0.7", grounding),
        Claim("abilities", "nano names, counts, compares and reads", ">= 0.8 exact answers of each kind", abilities),
        Claim("easy-vqa", "nano answers the test split of easy-VQA", ">= 0.95 over all questions", easy_vqa),
        Claim(
            "native-256",
            "searching in 256 px beats one pass over 256 px, same weights",
            ">= 20 points",
            partial(beats_native, regime=256, points=20.0),
        ),
        Claim(
            "native-512",
            "searching in 512 px beats one pass over 512 px, same weights",
            ">= 10 points",
            partial(beats_native, regime=512, points=10.0),
        ),
        Claim("zoom", "searching beats the zoom-tool loop at fewer tokens", "higher, < 1 times the tokens", beats_zoom),
        Claim("samples", "4 and 8 fused samples are at least as good as 1", ">= 0 points", samples_help),
        Claim(
            "tokens-8192",
            "8192 px scenes need 100 times fewer visual tokens, at no less accuracy",
            ">= 100 times fewer, >= 0 points",
            few_tokens,
        ),
        Claim("samples-time", "8 samples cost little more than 1", "<= 2.0 times", shared_samples),
        Claim("cold-start", "fovea ask from start to answer", "<= 12 s, answer <= 3 s", cold_start),
        Claim("memory-8192", "peak memory of a question about 8192 x 8192 px", "<= 2048 MB", memory_8192),
        Claim(
            "documents",
            "the flow finds evidence on documents of unseen templates and fonts",
            "W2 to the truth falls at every step",
            reads_documents,
        ),
        *(
            Claim(
                f"documents-{rival}",
                f"the flow finds evidence better than {words}",
                f"higher, {f'>= {points} points' if points else 'also'} for evidence under 0.5 % of the page",
                partial(beats_rival, rival=rival, tiny_points=points),
            )
            for rival, points, words in (
                ("one-step", 10, "one step with the same network"),
                ("kl", 0, "the same steps in the Kullback-Leibler geometry"),
                ("detector", 0, "regressing the box at once from the same words"),
                ("match", 0, "matching strings"),
            )
        ),
        Claim(
            "documents-long",
            f"on 10 to 40 pages with at most {BUDGET} particles a step, the flow beats one step with the same network",
            "higher, >= 10 points under 0.5 % of the page; also than one step on the words that match best",
            beats_within_budget,
        ),
        Claim(
            "documents-long-free",
            f"and with {BUDGET} particles beats one step that weighs every word of the 10 to 40 pages",
            "higher",
            beats_all_words,
        ),
        Claim(
            "documents-two-looks",
            "what one step finds tells the next where to look: questions whose answer stands beside something unnamed",
            ">= 10 points above one step where two tables have to be read",
            takes_two_looks,
        ),
    )
}
