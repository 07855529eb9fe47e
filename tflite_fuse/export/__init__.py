"""Packages for Arduino, PlatformIO and ESP-IDF, C arrays, the resolver header."""
