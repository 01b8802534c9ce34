"""Runtime extensions: which of them is asked whether a Machine can be updated in place, how it is asked, and what its answer means."""
