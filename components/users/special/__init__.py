"""What serves users of a kind: those who test a no, those who derail, and people in danger."""
