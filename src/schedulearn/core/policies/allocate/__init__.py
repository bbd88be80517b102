"""How many workers each?"""
