"""The kinds of projects that can be exported, one file each."""
