"""The graph as DVC sees it: plan, dry run, what is whole, what can be removed."""
