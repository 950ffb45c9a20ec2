"""torch.compile's backends as targets: through Dynamo (`compile:NAME`), without it (`backend:NAME`), and TorchScript's tracer."""
