"""Who goes first?"""
