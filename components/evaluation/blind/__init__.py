"""What people prefer when they do not know who is speaking: pairs of dialogues, answers, and what the answers say."""
