"""The machine: capability contracts, frames, keys, policy, and the guard in front of every driver."""
