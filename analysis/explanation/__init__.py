"""Where the missing speed-up of a trial goes: its ablation, waterfall, verdict and remedies."""
