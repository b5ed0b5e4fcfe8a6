"""The report: one self-contained page, tables for machines and readers, and the plots, made from files alone."""
