"""One run of an operator: observe, decide, act, and again; locked against others, recorded, and bound to the plan that was approved."""
