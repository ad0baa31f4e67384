"""The groups of options in the help of every command, in the order in which they appear."""

from cyclopts import Group

INPUT = Group("Input", sort_key=1)
MODEL = Group("Model", sort_key=2)
TARGET = Group("Target", sort_key=3)
FEATURES = Group("Features", sort_key=4)
METHOD = Group("Method", sort_key=5)
BUDGET = Group("Budget and accuracy", sort_key=6)
TRAINING = Group("Training", sort_key=7)
WORKERS = Group("Workers", sort_key=8)
SERVER = Group("Server", sort_key=9)
OUTPUT = Group("Output", sort_key=10)
