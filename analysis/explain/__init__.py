"""Explains where the missing speed-up of a trial goes: ablation, waterfall, verdict and
remedies."""
