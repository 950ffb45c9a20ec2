"""The torch dialect, executed: eager PyTorch's operators give a snapshot its meaning."""
