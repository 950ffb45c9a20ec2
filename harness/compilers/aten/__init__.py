"""The aten path: one compiler behind the torch.compile backend `fxdiff_aten` and behind its twin without Dynamo.

    graph of aten operators ▸ lowering passes ▸ support predicate ▸ partitions ▸ an engine for each ▸ the rest in torch

`settings` says what can be chosen, `compiler` is the way above, `backend` brings graphs from torch.compile, `twin` traces
modules itself, `engines` run the partitions, `hygiene` keeps fake tensors out of them, `audit` compares all of it.
"""
