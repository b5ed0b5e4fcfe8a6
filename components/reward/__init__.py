"""From a finished dialogue to a number, or to None when nothing can be said."""
