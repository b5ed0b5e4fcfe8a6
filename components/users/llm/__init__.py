"""The user played by a language model: appraise, then speak (SAGE paper, section 2), over a chat endpoint."""
