"""Where models come from, one module a source: `SOURCE`, by the module's name. Written NAME:MODEL, or chosen by base.kind."""
