"""One class a request code and one an answer: what is on the wire, and nothing else."""
