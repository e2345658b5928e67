"""Evidence as a law on the pages that sharpens in Jordan-Kinderlehrer-Otto steps, from coarse cells to words.

Needs no model: whoever gives potentials gets a flow. The way of one document,

    pages = page_grid([(595, 842)], cells=8)                       # supports: `grids`
    result = run_flow(pages, potential_fn, FlowConfig())           # K steps: `flow`, `config`
    result.rho, result.support.boxes, result.steps[0].residual     # the last law, where it lies, how well it was solved
    loss = flow_loss([result], [step_targets(result, [Region(0, 0.1, 0.2, 0.3, 0.25)], config)], config)

or one step alone: `step.jko_step`; a distance between two laws: `divergence`. Everything is batched, in the log domain,
differentiable, and states its residuals. `benchmark` compares with POT.
"""
