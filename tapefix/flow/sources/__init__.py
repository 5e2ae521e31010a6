"""What a gradient is asked for: teachers, lists of weights, layers made anew, and what an optimizer gets."""
