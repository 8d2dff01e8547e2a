"""The four-stage test selector: discover, triage, plan, verify.

A library: values in, values out. It opens no connection and imports no torch; what it needs (trees, op databases,
capability sheets, history) is handed in. ``selector.model`` has the words, ``selector.pipeline`` joins the stages.
"""
