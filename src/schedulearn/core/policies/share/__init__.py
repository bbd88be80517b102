"""How much CPU on one shared machine?"""
