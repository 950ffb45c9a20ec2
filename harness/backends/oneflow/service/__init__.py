"""OneFlow as a service: a process that is handed programs once and then called with tensors, for torch.compile's backend."""
