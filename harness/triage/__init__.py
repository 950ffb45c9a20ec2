"""What a disagreement is: the features of a node, and whether a known bug explains it."""
