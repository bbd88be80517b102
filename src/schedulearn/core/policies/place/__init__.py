"""On which machines?"""
