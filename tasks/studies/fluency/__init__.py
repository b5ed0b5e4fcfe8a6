"""Are the replies still the language of the model they come from?"""
