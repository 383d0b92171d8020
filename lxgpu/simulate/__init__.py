"""A lab in virtual time: the same policy, and what a lab would use instead, on a trace, made-up people or history."""
