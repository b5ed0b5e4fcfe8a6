"""The report: one self-contained page, a table for machines and one for readers, and the plots. Made from files, by no clock."""
