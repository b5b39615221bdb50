"""Drivers: each lends capabilities from one device or transport."""
