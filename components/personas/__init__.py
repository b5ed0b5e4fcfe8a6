"""Personas: schema, scenario library, generator, importers, and the proof that train and test share nothing."""
