"""OneFlow as a target: whole programs, or node by node on the reference's inputs."""
