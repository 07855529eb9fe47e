"""One file per kind of project that can be exported."""
