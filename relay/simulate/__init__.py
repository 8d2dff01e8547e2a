"""A month of upstream's traffic against a fleet, on a virtual clock: the policy, the packing of shards and the budgets
are the product's own; what takes time (selecting, a variant, a call) is a number of the scenario. docs/simulation.md.
"""
