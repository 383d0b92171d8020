"""The files an admin edits: settings, policy, profiles."""
