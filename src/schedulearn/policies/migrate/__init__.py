"""Who should move?"""
