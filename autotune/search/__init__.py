"""The search: asks the policy, runs trials, keeps them in an Optuna study. The only part that imports Optuna."""
